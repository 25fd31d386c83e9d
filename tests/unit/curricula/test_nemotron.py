"""The schedule by hand, the batch of every domain, profiles made, read and made again."""

import json
import math
import random

import numpy as np
import pytest

from metis import Group, MetisError, Pool, Progress, Prompt, Selector, drive
from metis.core import Engine, Measure, each_count
from metis.curricula.nemotron import Nemotron, shares


class Known(Engine):
    """Prompts pass by their difficulty: one of d = 0.25 in 3 of 4 rollouts."""

    def __init__(self, harder=0.0):
        self.harder, self.measured, self.version = harder, [], 0

    def answer(self, request):
        if isinstance(request, Measure):
            self.measured.append([prompt.id for prompt in request.prompts])
        return super().answer(request)

    def rollout(self, prompts, n):
        return [
            Group(prompt, tuple(float(i < self._passes(prompt, count)) for i in range(count)))
            for prompt, count in zip(prompts, each_count(n, prompts), strict=True)
        ]

    def _passes(self, prompt, n):
        return round((1 - prompt.difficulty - self.harder) * n)


def pool(*difficulties, domains=1, each=1):
    return Pool(
        [
            Prompt(f"{domain}:{d}:{i}", "", f"domain-{domain}", d)
            for domain in range(domains)
            for d in difficulties
            for i in range(each)
        ]
    )


def walk(curriculum, prompts, engine, steps, start=0, total=100):
    return [
        drive(curriculum.step(prompts, Progress(i, i / total)), engine)
        for i in range(start, start + steps)
    ]


def test_the_target_by_hand():
    """With measure = 4: pass rates 0, 1/4, ... 1, and mu = 1/2: exp(0), exp(-2), exp(-8)."""
    target = Nemotron(measure=4, sigma=0.125).target(0.5)
    whole = 1 + 2 * math.exp(-2) + 2 * math.exp(-8)
    by_hand = [math.exp(-8), math.exp(-2), 1, math.exp(-2), math.exp(-8)]
    assert target == pytest.approx(np.array(by_hand) / whole)


def test_the_mean_falls_in_a_line_over_what_is_left_of_the_budget():
    curriculum = Nemotron(start=0.7, end=0.4)
    curriculum.opening = 0.2
    means = [curriculum.mean(Progress(0, fraction)) for fraction in (0.2, 0.4, 0.6, 1.0)]
    assert means == pytest.approx([0.7, 0.625, 0.55, 0.4])
    curriculum = Nemotron(start=0.7, end=0.4, profile_every=4)
    curriculum.trained = 3
    assert curriculum.mean(Progress(9, 0.9)) == pytest.approx(0.475)


@pytest.mark.parametrize(
    ("sizes", "slots", "offset", "expected"),
    [
        ([6, 2], 4, 0.0, [3, 1]),
        ([5, 3], 4, 0.0, [2, 2]),  # ends at 2.5 and 4
        ([5, 3], 4, 0.5, [3, 1]),
        ([1, 0, 2], 9, 0.9, [1, 0, 2]),
        ([0, 0], 4, 0.5, [0, 0]),
    ],
)
def test_the_shares_of_domains_by_hand(sizes, slots, offset, expected):
    assert shares(sizes, slots, offset) == expected


def test_shares_are_right_in_the_mean_and_fill_the_batch():
    rng = random.Random(0)
    drawn = np.array([shares([70, 25, 5], 10, rng.random()) for _ in range(2000)])
    assert (drawn.sum(axis=1) == 10).all()
    assert drawn.mean(axis=0) == pytest.approx([7, 2.5, 0.5], abs=0.05)


def test_all_are_measured_first_a_bounded_number_a_step():
    prompts, engine = pool(0.0, 0.25, 0.5, 0.75, 1.0), Known()
    curriculum = Nemotron(batch=2, group=4, measure=4)
    batches = walk(curriculum, prompts, engine, 5)
    assert [len(asked) for asked in engine.measured] == [2, 2, 1]
    assert [len(batch.groups) for batch in batches] == [0, 0, 0, 2, 2]
    assert [batch.metrics.get("select/measured") for batch in batches] == [2, 4, 5, None, None]
    assert batches[0].metrics["select/discarded"] == 8.0
    assert curriculum.known.tolist() == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert batches[3].notices == [
        "profile 1: mean pass rate 0.50, 1 of 5 prompts left out with 1 or more"
    ]


def test_a_batch_is_near_the_target_in_every_domain():
    prompts, engine = pool(0.0, 0.25, 0.5, 0.75, 1.0, domains=2, each=20), Known()
    curriculum = Nemotron(batch=40, group=4, measure=4, start=0.75, end=0.25, sigma=0.02)
    *_, first = walk(curriculum, prompts, engine, 6)
    rates = {1 - group.prompt.difficulty for group in first.groups}
    assert rates == {0.75} and len(first.groups) == 40
    assert first.metrics["select/target"] == 0.75 and first.metrics["select/pass_rate"] == 0.75
    assert first.metrics["select/left_out"] == 40
    last = walk(curriculum, prompts, engine, 1, start=100)[0]
    assert {1 - group.prompt.difficulty for group in last.groups} == {0.25}
    ids = [group.prompt.category for group in last.groups]
    assert ids.count("domain-0") == 20 and ids != sorted(ids)


def test_other_pass_rates_take_the_slots_that_the_target_cannot_fill():
    prompts = pool(0.25, 0.5, each=3)
    curriculum = Nemotron(batch=4, group=4, measure=4, start=0.75, end=0.75, sigma=0.01)
    *_, batch = walk(curriculum, prompts, Known(), 3)
    rates = sorted(1 - group.prompt.difficulty for group in batch.groups)
    assert rates == [0.5, 0.75, 0.75, 0.75]


def test_what_reaches_the_limit_is_left_out_and_nothing_may_be_left():
    *_, batch = walk(Nemotron(batch=2, group=4, measure=4, below=0.5), pool(0.25, 0.5), Known(), 2)
    assert batch.groups == [] and batch.metrics["select/left_out"] == 2.0
    assert batch.notices[0].endswith("with 0.5 or more: there is nothing to train on")


def test_profiles_are_made_again_and_the_schedule_starts_over():
    prompts, engine = pool(0.25, 0.5), Known()
    curriculum = Nemotron(batch=2, group=4, measure=4, profile_every=3)
    batches = walk(curriculum, prompts, engine, 4)
    engine.harder = 0.25
    batches += walk(curriculum, prompts, engine, 2, start=4)
    targets = [batch.metrics.get("select/target") for batch in batches]
    assert targets == pytest.approx([None, 0.7, 0.6, 0.5, None, 0.7])
    assert curriculum.known.tolist() == [0.5, 0.25] and curriculum.profile == 2
    assert batches[-1].metrics["select/profile"] == 2.0


def test_a_survey_spares_measuring_and_the_rest_is_measured(tmp_path):
    prompts, engine, path = pool(0.25, 0.5, 0.75), Known(), tmp_path / "outcomes.jsonl"
    rows = [{"prompt": prompts.prompts[i].id, "rewards": [1.0, 0.0, 0.0, 0.0]} for i in (0, 2)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    curriculum = Nemotron(batch=2, group=4, measure=4, rates=str(path))
    curriculum.check(prompts)
    walk(curriculum, prompts, engine, 2)
    assert engine.measured == [[prompts.prompts[1].id]]
    assert curriculum.known.tolist() == [0.25, 0.5, 0.25]
    other = Pool([Prompt("another", "")])
    with pytest.raises(MetisError, match=r"curriculum\.rates = .*none of the 1 prompts"):
        Nemotron(rates=str(path)).check(other)


def test_a_selector_serves_it_with_late_outcomes_where_all_rates_are_known(tmp_path):
    texts, path = [f"text {i}" for i in range(20)], tmp_path / "outcomes.jsonl"
    ids = [
        prompt.id for prompt in Selector(texts, "uniform", batch=2, group=2)._source.pool.prompts
    ]
    path.write_text("".join(f'{{"prompt": "{name}", "rewards": [1, 0]}}\n' for name in ids))
    selector = Selector(texts, "nemotron", batch=4, group=2, rates=str(path))
    first, second = selector.propose(), selector.propose()
    assert len(first) == len(second) == 4 and not any(pick.measure for pick in first)
    assert all(selector.observe(pick.id, [1.0, 0.0]) for pick in [*second, *first])
    again = Selector(texts, "nemotron", batch=4, group=2, rates=str(path), profile_every=5)
    again.propose()
    with pytest.raises(MetisError, match="a step has to end before the next one"):
        again.propose()


def test_a_prompt_that_cannot_be_measured_counts_as_average():
    class Failing(Known):
        def rollout(self, prompts, n):
            groups = super().rollout(prompts, n)
            return [
                Group(group.prompt, (), failed=n) if group.prompt.difficulty == 1.0 else group
                for group in groups
            ]

    curriculum = Nemotron(batch=3, group=4, measure=4)
    walk(curriculum, pool(0.25, 0.75, 1.0), Failing(), 2)
    assert curriculum.filled().tolist() == [0.75, 0.25, 0.5]


@pytest.mark.parametrize(
    "knobs",
    [
        {"start": 1.5},
        {"end": -1},
        {"sigma": 0},
        {"below": 0},
        {"measure": 0},
        {"profile_every": -1},
    ],
)
def test_bad_knobs_are_refused_by_name(knobs):
    (name,) = knobs
    with pytest.raises(MetisError, match=f"curriculum.{name} = "):
        Nemotron(**knobs)
