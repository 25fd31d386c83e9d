import dataclasses
import math

import numpy as np
import pytest

from metis import core
from metis.core import (
    Batch,
    Complete,
    Embed,
    Engine,
    Fit,
    Group,
    Predict,
    Progress,
    Prompt,
    Request,
    Rollout,
    Sampling,
    Score,
    Trajectory,
)
from metis.core.drive import drive
from metis.core.needs import Needs
from metis.core.predictors import AttentionModel, ValueModel
from metis.errors import MetisError
from metis.run.meter import Meter
from metis.run.records import batch_metrics

ONE, TWO = Prompt("data:1", "one"), Prompt("data:2", "two")
CHAT = [{"role": "user", "content": "hello"}]
SAMPLING = Sampling(max_tokens=8)
METHODS = ("complete", "score", "rollout", "embed", "predict", "fit")
REQUESTS = (
    Complete([CHAT], SAMPLING),
    Score([CHAT], ["a", "b"]),
    Rollout([ONE, TWO], 4),
    Embed([ONE]),
    Predict([TWO], ValueModel()),
    Fit([ONE], [0.25], AttentionModel(), [(TWO, 0.5)]),
)


class Scripted(Engine):
    """An engine of the given methods."""

    def __init__(self, **methods):
        vars(self).update(methods)


class Clocked(Scripted):
    """One that a meter can measure."""

    processed, laps = 0, {}

    def clock(self):
        return 0.0


def group(prompt, *rewards, failed=0):
    empty = Trajectory(np.zeros(0, int), np.zeros(0, bool), np.zeros(0, np.float32), 0)
    return Group(prompt, rewards, (empty,) * len(rewards), failed)


def echo(name):
    return lambda *arguments: (name, *arguments)


def echoed(request):
    name = type(request).__name__.lower()
    return (name, *(getattr(request, field.name) for field in dataclasses.fields(request)))


def ask_all(requests):
    replies = []
    for request in requests:
        replies.append((yield request))
    return replies


def test_drive_answers_each_request_in_turn_and_returns_the_plan():
    engine = Scripted(**{name: echo(name) for name in METHODS})
    assert drive(ask_all(REQUESTS), engine) == [echoed(request) for request in REQUESTS]


@dataclasses.dataclass(frozen=True)
class Translate(Request):
    """A request that METIS does not know."""

    text: str
    method = "in_capitals"
    phase = "select"

    def cost(self, reply):
        return {"select/translated": len(reply)}


def test_a_new_request_is_known_to_nobody_but_the_engine_that_serves_it():
    engine = Scripted(in_capitals=str.upper, clock=lambda: 0.0, processed=0, laps={})
    meter = Meter(engine)
    assert drive(ask_all([Translate("four")]), meter) == ["FOUR"]
    assert meter.counts["select/translated"] == 4
    assert Needs(frozenset({Translate})).described() == "nothing"
    with pytest.raises(MetisError, match=r"Scripted does not answer Translate: .* 'in_capitals'"):
        drive(ask_all([Translate("four")]), Scripted(rollout=echo("rollout")))


def test_a_request_of_a_subclass_is_answered_as_its_base():
    class Repeated(Rollout):
        pass

    engine = Scripted(rollout=echo("rollout"))
    assert drive(ask_all([Repeated([ONE], 2)]), engine) == [("rollout", [ONE], 2)]


def test_a_request_that_names_no_method_is_refused():
    class Unnamed(Request):
        pass

    with pytest.raises(TypeError, match="Unnamed has no `method`"):
        drive(ask_all([Unnamed()]), Scripted())


def test_drive_returns_a_plan_that_asks_for_nothing():
    assert drive(ask_all([]), Scripted()) == []


def test_an_error_of_the_engine_reaches_the_caller():
    def fail(*_):
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        drive(ask_all(REQUESTS), Scripted(complete=fail))


@pytest.mark.parametrize(
    ("plan", "method", "reply"),
    [
        (lambda: core.complete([CHAT, CHAT], SAMPLING), "complete", ["a", "b"]),
        (lambda: core.score([CHAT, CHAT], ["a"]), "score", [[-1.0], [-2.0]]),
        (
            lambda: core.rollout([ONE, TWO], 2),
            "rollout",
            [group(ONE, 1.0, failed=1), group(TWO, failed=2)],
        ),
        (lambda: core.embed([ONE, TWO]), "embed", [[0.0], [1.0]]),
        (lambda: core.predict([ONE, TWO], ValueModel()), "predict", [0.1, 0.2]),
    ],
    ids=["complete", "score", "rollout", "embed", "predict"],
)
def test_helpers_return_the_reply_and_refuse_one_of_another_length(plan, method, reply):
    assert drive(plan(), Scripted(**{method: lambda *_: reply})) is reply
    for wrong in (reply[:1], reply + reply[:1]):
        with pytest.raises(RuntimeError, match=f"answered {len(wrong)} of 2 to '{method}'"):
            drive(plan(), Scripted(**{method: lambda *_, wrong=wrong: wrong}))


def test_helpers_ask_nothing_of_the_engine_when_there_is_nothing_to_ask():
    for plan in (core.complete([], SAMPLING), core.score([], ["a"]), core.rollout([], 8)):
        assert drive(plan, Scripted()) == []


def test_rollout_refuses_groups_that_lost_rollouts():
    engine = Scripted(rollout=lambda *_: [group(ONE, 1.0), group(TWO, failed=2)])
    with pytest.raises(RuntimeError, match="lost count"):
        drive(core.rollout([ONE, TWO], 2), engine)


def test_nothing_is_asked_about_no_prompts():
    assert drive(core.rollout([], 2), Scripted()) == []


def test_score_refuses_a_row_of_another_length():
    engine = Scripted(score=lambda *_: [[-1.0], [-1.0, -2.0]])
    with pytest.raises(RuntimeError, match="answered 2 of 1 to 'score'"):
        drive(core.score([CHAT, CHAT], ["a"]), engine)


def test_a_plan_that_yields_no_request_is_told_how_to_ask():
    def plan():
        yield core.rollout([ONE], 2)

    with pytest.raises(TypeError, match="yield from rollout"):
        drive(plan(), Scripted())


def test_each_prompt_may_have_its_own_number_of_rollouts():
    def answer(prompts, n):
        assert n == [1, 3]
        return [group(ONE, 1.0), group(TWO, 0.0, failed=2)]

    meter = Meter(Clocked(rollout=answer))
    groups = drive(core.rollout([ONE, TWO], [1, 3]), meter)
    assert [len(each.rewards) for each in groups] == [1, 1]
    assert meter.counts["rollout/generated"] == 4
    with pytest.raises(RuntimeError, match="lost count of the rollouts of 'data:2'"):
        short = Scripted(rollout=lambda *_: [group(ONE, 1.0), group(TWO, 0.0)])
        drive(core.rollout([ONE, TWO], [1, 3]), short)


def test_equal_numbers_are_one_number():
    """So that an engine which takes one number serves every plan whose groups have one size."""
    assert Rollout([ONE, TWO], [4, 4]) == Rollout([ONE, TWO], 4)


@pytest.mark.parametrize("n", [0, [2], [2, 0], [2, 2, 2]])
def test_a_number_of_rollouts_that_cannot_be_is_refused(n):
    with pytest.raises(ValueError, match="for 2 prompts"):
        Rollout([ONE, TWO], n)


def test_rollout_refuses_groups_in_another_order():
    engine = Scripted(rollout=lambda *_: [group(TWO), group(ONE)])
    with pytest.raises(RuntimeError, match="another order"):
        drive(core.rollout([ONE, TWO], 2), engine)


@pytest.mark.parametrize("reward", [-0.01, 1.01, math.nan, math.inf, -math.inf])
def test_a_reward_outside_zero_to_one_is_refused_with_its_prompt(reward):
    with pytest.raises(MetisError, match=f"'data:1' = {reward!r}"):
        group(ONE, 0.5, reward)


def test_a_group_needs_a_trajectory_for_each_reward_or_none():
    with pytest.raises(ValueError, match="'data:1' has 2 rewards but 1 trajectories"):
        Group(ONE, (0.0, 1.0), (object(),))
    alone = Group(ONE, (0.0, 1.0), failed=1) + Group(ONE, (1.0,))
    assert (alone.rewards, alone.failed, alone.tokens) == ((0.0, 1.0, 1.0), 1, 0)
    with pytest.raises(ValueError, match="'data:1' has 2 rewards but 1 trajectories"):
        group(ONE, 1.0) + Group(ONE, (0.0,))


def test_a_group_needs_a_report_for_each_reward_or_none():
    prompt, nothing = Prompt("a", "a"), object()
    assert Group(prompt, (0.5,), (nothing,), reports=({},)).reports == ()
    with pytest.raises(ValueError, match="2 rewards but 1 reports"):
        Group(prompt, (0.5, 1.0), (nothing,) * 2, reports=({"words": 3.0},))
    said = Group(prompt, (0.5,), (nothing,), reports=({"words": 3.0},))
    whole = Group(prompt, (1.0,), (nothing,)) + said
    assert whole.reports == ({}, {"words": 3.0})
    assert batch_metrics(Batch([whole]))["reward/words"] == 3.0


def test_groups_of_one_prompt_add_up():
    cut = dataclasses.replace(group(ONE, 1.0, failed=2), cut_off=1)
    merged = cut + group(ONE, 0.0, 0.5, failed=1)
    assert (cut + cut).cut_off == 2
    assert merged.prompt is ONE
    assert (merged.rewards, len(merged.trajectories), merged.failed) == ((1.0, 0.0, 0.5), 3, 3)
    with pytest.raises(ValueError, match="'data:1' and 'data:2' do not add up"):
        group(ONE) + group(TWO)


@pytest.mark.parametrize(
    ("rewards", "mean", "variance", "informative"),
    [
        ((), None, None, False),
        ((1.0,), 1.0, None, False),
        ((1.0, 1.0), 1.0, 0.0, False),
        ((0.0, 1.0), 0.5, 0.25, True),
        ((0.0, 0.0, 0.0, 1.0), 0.25, 0.1875, True),
        ((0.5, 0.5001), 0.50005, pytest.approx(2.5e-9), False),
    ],
)
def test_a_group_knows_its_mean_variance_and_worth(rewards, mean, variance, informative):
    made = group(ONE, *rewards, failed=2)
    assert made.mean == (None if mean is None else pytest.approx(mean))
    assert (made.variance, made.informative, made.failed) == (variance, informative, 2)


def test_a_reward_that_misses_its_range_by_rounding_is_put_at_the_end():
    assert group(ONE, 1 + 1e-12, -1e-17, 0.5).rewards == (1.0, 0.0, 0.5)
    for wrong in (1.001, -0.001, math.nan, math.inf):
        with pytest.raises(MetisError, match=r"rewards must be numbers in \[0, 1\]"):
            group(ONE, wrong)


def test_progress_generators_are_fixed_by_seed_step_and_purpose_alone():
    def draw(purpose="ties", **changes):
        return Progress(**{"step": 3, "seed": 1, **changes}).rng(purpose).random()

    assert draw() == draw(fraction=0.5, policy=9)
    assert len({draw(), draw("explore"), draw(step=4), draw(seed=2), draw(step=1, seed=3)}) == 5
