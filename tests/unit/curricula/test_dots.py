"""DOTS by hand: references, their regression, the draw, and the buffer it replays from."""

import math
import random
from collections import Counter

import numpy as np
import pytest

from metis import Group, MetisError, Pool, Progress, Prompt, drive
from metis.config import resolve
from metis.core import Engine, Trajectory, state
from metis.core.predictors import AttentionModel
from metis.curricula.dots import Dots, fit_line, gumbel_top_k, outcome

PROMPTS = [Prompt(f"p{i}", f"p{i}") for i in range(12)]


def rolled(prompt, rewards, policy=0, failed=0):
    mask = np.ones(3, dtype=bool)
    made = [Trajectory(np.arange(3), mask, np.full(3, -1.5, np.float32), policy) for _ in rewards]
    return Group(prompt, tuple(rewards), tuple(made), failed)


class Scripted(Engine):
    """Prompt i is predicted `said[i]` and passes `passed[i]` of its rollouts; notes requests."""

    def __init__(self, passed=None, said=None):
        self.passed = passed or [i % 5 for i in range(12)]
        self.said = said or [0.25 * passes for passes in self.passed]
        self.asked, self.version = [], 0

    def predict(self, prompts, model, evidence):
        self.asked.append(("predict", [p.id for p in prompts], [(p.id, d) for p, d in evidence]))
        return [self.said[int(p.id[1:])] for p in prompts]

    def fit(self, prompts, targets, model, evidence):
        assert [(p.id, d) for p, d in evidence] == [
            (p.id, d) for p, d in zip(prompts, targets, strict=True)
        ]
        self.asked.append(("fit", [p.id for p in prompts], list(targets)))
        return 0.5

    def rollout(self, prompts, n):
        self.asked.append(("rollout", [p.id for p in prompts], n))
        return [self.group(p, n) for p in prompts]

    def group(self, prompt, n):
        passes = self.passed[int(prompt.id[1:])]
        return rolled(prompt, (1.0,) * passes + (0.0,) * (n - passes), self.version)


def make(**knobs):
    sizes = {"batch": 4, "group": 4, "multiplier": 2, "references": 0.75}
    return Dots(**{**sizes, **knobs})


def run(curriculum, engine, steps, start=0, pool=None):
    pool, batches = pool or Pool(PROMPTS), []
    for number in range(start, start + steps):
        engine.version = number
        batches.append(drive(curriculum.step(pool, Progress(number, policy=number)), engine))
    return batches


def names(engine):
    return [request[0] for request in engine.asked]


def test_references_are_measured_every_second_step_and_learned_from_when_they_leave():
    engine = Scripted()
    batches = run(make(), engine, 4)
    second = ["predict", "predict", "predict", "rollout"]  # two halves, then the candidates
    first = ["rollout", *second]
    assert names(engine) == [*first, *second, "fit", *first, *second]
    measured = engine.asked[0][1]
    truth = [(prompt, engine.passed[int(prompt[1:])] / 4) for prompt in measured]
    assert len(measured) == 3
    assert engine.asked[1][1:] == ([prompt for prompt, _ in truth[::2]], truth[1::2])
    assert engine.asked[2][1:] == ([prompt for prompt, _ in truth[1::2]], truth[::2])
    assert engine.asked[3][2] == engine.asked[7][2] == truth
    assert engine.asked[9] == ("fit", measured, [d for _, d in truth])
    assert engine.asked[10][1] != measured
    assert [batch.metrics["select/discarded"] for batch in batches] == [12.0, 0.0, 12.0, 0.0]
    losses = [batch.metrics.get("select/predictor_loss") for batch in batches]
    assert losses == [None, None, 0.5, None]


def test_predictions_are_regressed_on_the_references():
    engine = Scripted(said=[0.1 * (i % 5) for i in range(12)])  # too low: the truth is 0.25 (i % 5)
    (batch,) = run(make(references=3.0, temperature=1e-6), engine, 1)
    assert len(engine.asked[3][2]) == 12
    assert batch.metrics["select/slope"] == pytest.approx(2.5)
    for decision in batch.decisions:
        assert decision.score == pytest.approx(0.25 * (int(decision.prompt.id[1:]) % 5))
    best = sorted(abs(decision.score - 0.5) for decision in batch.decisions)[:4]
    chosen = sorted(abs(d.score - 0.5) for d in batch.decisions if d.chosen)
    assert chosen == pytest.approx(best)


def test_half_of_a_batch_is_replayed_informative_and_latest():
    engine = Scripted(passed=[2, 0, 4, 1] * 3)
    curriculum = make(temperature=1e6)
    batches = run(curriculum, engine, 8)
    assert [batch.metrics["select/replayed"] for batch in batches[:2]] == [0.0, 0.0]
    assert any(batch.metrics["select/replayed"] == 2.0 for batch in batches[2:])
    latest = {}
    for number, batch in enumerate(batches):
        ids = [group.prompt.id for group in batch.groups]
        assert len(ids) == len(set(ids)) == 4
        replayed = {d.prompt.id for d in batch.decisions if d.reason == "replayed"}
        for group in batch.groups:
            if group.prompt.id in replayed:
                assert group.informative and group is latest[group.prompt.id]
                assert all(t.policy < number for t in group.trajectories)
                assert all((t.logprobs == -1.5).all() for t in group.trajectories)
            else:
                assert all(t.policy == number for t in group.trajectories)
        latest |= {g.prompt.id: g for g in batch.groups if g.prompt.id not in replayed}


def test_a_dead_group_takes_the_place_of_an_older_one_of_its_prompt():
    curriculum = make()
    one, two = PROMPTS[:2]
    curriculum.groups = [rolled(one, (0.0, 1.0)), rolled(two, (0.0, 1.0)), rolled(one, (1.0, 1.0))]
    replayed = curriculum._replay(Pool(PROMPTS), Progress(5))
    assert [group.prompt.id for group in replayed] == ["p1"]


def test_the_buffer_keeps_the_latest_groups():
    curriculum = make(buffer=1.5, fresh=1.0)
    engine = Scripted()
    batches = run(curriculum, engine, 3)
    drawn = [request[1] for request in engine.asked if request[0] == "rollout"]
    fresh = [prompt for prompts in drawn if len(prompts) == 4 for prompt in prompts]
    assert [group.prompt.id for group in curriculum.groups] == fresh[-6:]
    assert all(batch.metrics["select/replayed"] == 0.0 for batch in batches)


def test_a_short_buffer_is_made_up_for_by_fresh_rollouts():
    engine = Scripted(passed=[0] * 12)
    batches = run(make(), engine, 4)
    assert all(len(batch.groups) == 4 for batch in batches)
    assert all(batch.metrics["select/replayed"] == 0.0 for batch in batches)


def test_a_pool_of_one_prompt_is_never_only_replayed():
    engine = Scripted(passed=[2])
    for batch in run(make(), engine, 6, pool=Pool(PROMPTS[:1])):
        assert batch.metrics["select/replayed"] == 0.0
        assert len(batch.groups) == 1


def test_a_predictor_without_skill_leaves_all_prompts_equal():
    backwards = [1.0 - 0.25 * (i % 5) for i in range(12)]
    for said in (backwards, [0.3] * 12):
        (batch,) = run(make(references=3.0), Scripted(said=said), 1)
        assert batch.metrics["select/slope"] == 0.0
        assert len({decision.score for decision in batch.decisions}) == 1


def test_without_references_that_gave_a_reward_the_draw_is_uniform():
    class Failing(Scripted):
        def rollout(self, prompts, n):
            return [Group(prompt, (), (), n) for prompt in prompts]

    engine = Failing()
    for batch in run(make(), engine, 3):
        assert len(batch.groups) == 4
        assert all(decision.score is None for decision in batch.decisions)
    assert names(engine) == []


def test_continuous_rewards_predict_the_variance_and_aim_at_its_most():
    group = rolled(PROMPTS[0], (0.0, 1.0, 1.0, 1.0))
    assert outcome(group, "continuous") == pytest.approx(0.75)
    assert outcome(group, "binary") == 0.75
    assert outcome(rolled(PROMPTS[0], (0.5, 0.5)), "continuous") == 0.0
    assert outcome(rolled(PROMPTS[0], (1.0,)), "continuous") is None
    pool = Pool(PROMPTS, rewards="continuous")
    engine = Scripted(said=[0.75 * (i % 5 in (1, 3)) + (i % 5 == 2) for i in range(12)])
    (batch,) = run(make(references=3.0, temperature=1e-6), engine, 1, pool=pool)
    scores = sorted((d.score for d in batch.decisions), reverse=True)
    assert sorted((d.score for d in batch.decisions if d.chosen), reverse=True) == scores[:4]


def test_the_draw_does_not_underflow_where_the_formula_does():
    gaps = [0.5, 0.3, 0.4, 0.2]
    assert math.exp(-0.8 / 1e-3) == 0.0
    assert sorted(gumbel_top_k(gaps, 3, 1e-4, random.Random(0))) == [1, 2, 3]
    assert sorted(gumbel_top_k([0.5] * 9, 9, 1e-3, random.Random(0))) == list(range(9))
    assert gumbel_top_k([], 3, 1e-3, random.Random(0)) == []


def test_the_draw_follows_its_law():
    """Two of three without replacement, against the chances multiplied out."""
    weights = np.exp(-np.array([0.0, 0.5, 1.0]))
    chances = weights / weights.sum()
    counts = Counter(
        tuple(gumbel_top_k([0.0, 0.5, 1.0], 2, 1.0, random.Random(i))) for i in range(20000)
    )
    for (first, second), count in counts.items():
        wanted = chances[first] * chances[second] / (1 - chances[first])
        assert count / 20000 == pytest.approx(wanted, abs=0.015)


def test_regression_by_hand():
    x = np.array([0.0, 0.5, 1.0])
    assert fit_line([(x, np.array([0.1, 0.3, 0.5]))]) == pytest.approx((0.4, 0.1))
    assert fit_line([(x, np.array([0.9, 0.5, 0.1]))]) == pytest.approx((0.0, 0.5))
    assert fit_line([(np.full(3, 0.2), x)]) == pytest.approx((0.0, 0.5))
    nothing = np.zeros(0)
    assert fit_line([(x, 0.4 * x), (x + 1, 0.4 * x), (nothing, nothing)]) == pytest.approx(
        (0.4, 0.2 - 0.4)
    )


class Attending(Scripted):
    """Predicts the mean of the other references, and a fifth of the way from there to the truth."""

    def predict(self, prompts, model, evidence):
        super().predict(prompts, model, evidence)
        found = []
        for prompt in prompts:
            others = [d for p, d in evidence if p.id != prompt.id]
            mean, truth = float(np.mean(others or [0.5])), self.passed[int(prompt.id[1:])] / 4
            found.append(mean + 0.2 * (truth - mean))
        return found


@pytest.mark.parametrize("references", [1.0, 1.5, 3.0])
def test_leaving_a_reference_out_does_not_hide_a_predictor_s_skill(references):
    """The others' mean is lower where the own value is higher, by as much as the skill, for six."""
    engine = Attending(passed=[0, 4, 1, 3] * 3)
    (batch,) = run(make(references=references), engine, 1)
    assert batch.metrics["select/slope"] == pytest.approx(5.0)


@pytest.mark.parametrize("references", [0.25, 0.5])
def test_one_or_two_references_say_nothing_of_the_slope(references):
    (batch,) = run(make(references=references), Attending(passed=[0, 4, 1, 3] * 3), 1)
    assert batch.metrics["select/slope"] == 0.0
    assert len({decision.score for decision in batch.decisions}) == 1


@pytest.mark.parametrize(("batch", "references", "kept"), [(2, 1, 2), (8, 4, 8)])
def test_references_and_buffer_grow_with_the_batch(batch, references, kept):
    curriculum, engine = Dots(batch=batch, group=4, multiplier=1), Scripted(passed=[0] * 12)
    run(curriculum, engine, 4)
    assert len(engine.asked[0][1]) == references
    assert len(curriculum.groups) == kept


def test_old_rollouts_are_not_replayed_but_counted():
    curriculum = make(stale=3)
    curriculum.groups = [rolled(PROMPTS[0], (0.0, 1.0), policy=4), rolled(PROMPTS[1], (0.0, 1.0))]
    engine, pool = Scripted(passed=[0] * 12), Pool(PROMPTS)
    (batch,) = run(curriculum, engine, 1, start=7, pool=pool)
    assert batch.metrics["select/stale"] == 1.0
    assert [d.prompt.id for d in batch.decisions if d.reason == "replayed"] == ["p0"]
    assert "p1" not in [g.prompt.id for g in curriculum.groups if g.informative]
    (batch,) = run(curriculum, engine, 1, start=8, pool=pool)
    assert batch.metrics["select/stale"] == 1.0
    assert batch.metrics["select/replayed"] == 0.0


def test_fresh_and_replayed_groups_are_mixed():
    curriculum = make(batch=8, temperature=1e6)
    batches = run(curriculum, Scripted(passed=[2] * 12), 8)
    places = [
        i
        for number, batch in enumerate(batches)
        for i, group in enumerate(batch.groups)
        if group.trajectories[0].policy < number
    ]
    assert {0, 7} <= set(places)


def test_saved_with_a_full_buffer_it_goes_on_the_same(tmp_path):
    straight, engine, pool = make(), Scripted(), Pool(PROMPTS)
    run(straight, engine, 5, pool=pool)
    state.save_state(tmp_path / "state", {"c": straight.state_dict(), "p": pool.state_dict()})
    saved = state.load_state(tmp_path / "state")
    resumed, other = make(), Pool(PROMPTS)
    resumed.load_state_dict(saved["c"])
    other.load_state_dict(saved["p"])
    one, two = Scripted(), Scripted()
    batches = zip(run(straight, one, 4, 5, pool), run(resumed, two, 4, 5, other), strict=True)
    assert one.asked == two.asked
    for before, after in batches:
        assert before.decisions == after.decisions
        for a, b in zip(before.groups, after.groups, strict=True):
            assert (a.prompt, a.rewards) == (b.prompt, b.rewards)
            assert [t.policy for t in a.trajectories] == [t.policy for t in b.trajectories]


def test_knobs_reach_the_predictor():
    section = {"name": "dots", "predictor": {"width": 16, "epochs": 2}}
    curriculum = resolve({"engine": "simulated", "curriculum": section}).curriculum
    assert curriculum.predictor == AttentionModel(width=16, epochs=2)
    for knobs, message in (
        ({"fresh": 0.0}, "curriculum.fresh = 0.0: use a share above 0"),
        ({"temperature": 0.0}, "curriculum.temperature = 0.0: use a number above 0"),
        ({"buffer": 0.0}, "curriculum.buffer = 0.0: use a number above 0"),
        ({"references": 0.0}, "curriculum.references = 0.0: use a number above 0"),
        ({"stale": -1}, "curriculum.stale = -1: use at least 0"),
    ):
        with pytest.raises(MetisError, match=message):
            make(**knobs)
