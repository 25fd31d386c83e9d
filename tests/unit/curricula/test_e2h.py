from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metis import MetisError, Pool, Progress, drive
from metis.curricula.e2h import E2H
from metis.engines.simulated import SimulatedEngine, Simulation

SCHEDULES = ["cosine", "gaussian", "classic", "balanced"]
deterministic = settings(derandomize=True, deadline=None)


def world(size=40, label=None, known=True):
    engine = SimulatedEngine(Simulation(prompts=size, heldout=1))
    prompts = [
        replace(
            prompt,
            category=label(i) if label else prompt.category,
            difficulty=prompt.difficulty if known else None,
        )
        for i, prompt in enumerate(engine.pool)
    ]
    return engine, Pool(prompts)


def chances(batch):
    arms = int(batch.metrics["select/arms"])
    return [batch.metrics[f"select/arm_{arm}_chance"] for arm in range(arms)]


@deterministic
@given(st.sampled_from(SCHEDULES), st.floats(0, 1), st.integers(1, 12))
def test_probabilities_sum_to_one_and_respect_the_floor(schedule, time, levels):
    law = E2H(schedule=schedule).probabilities(time, levels)
    assert law.shape == (levels,)
    assert law.sum() == pytest.approx(1.0)
    floor = 0.0 if schedule == "classic" else 2 / (levels * (levels + 1))
    assert law.min() >= floor - 1e-12


@deterministic
@given(st.integers(1, 12))
def test_the_end_of_the_cosine_is_its_beginning_reversed(levels):
    e2h = E2H()
    assert e2h.probabilities(0.0, levels) == pytest.approx(e2h.probabilities(1.0, levels)[::-1])


def test_the_schedules_by_hand():
    assert E2H().probabilities(0.0, 4) == pytest.approx([0.4, 0.3, 0.2, 0.1])
    assert E2H().probabilities(0.5, 4) == pytest.approx([0.25] * 4)
    assert E2H().probabilities(1 / 3, 3) == pytest.approx([2.5 / 6, 2 / 6, 1.5 / 6])

    bell = np.exp(-np.array([1.0, 0.0, 1.0]) / (2 * 0.25))
    middle = 1 / 6 + 0.5 * bell / bell.sum()
    assert E2H(schedule="gaussian").probabilities(0.25, 3) == pytest.approx(middle)
    assert E2H(schedule="gaussian", exponent=1.0).probabilities(0.5, 3) == pytest.approx(middle)

    classic = E2H(schedule="classic")
    levels = [int(classic.probabilities(t, 4).argmax()) for t in (0, 0.24, 0.25, 0.5, 0.75, 1)]
    assert levels == [0, 0, 1, 2, 3, 3]
    assert E2H(schedule="balanced").probabilities(0.9, 5) == pytest.approx([0.2] * 5)


def test_a_narrow_bell_does_not_underflow():
    law = E2H(schedule="gaussian", sigma=1e-3).probabilities(0.3, 6)
    assert law.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_step_draws_from_the_levels_that_its_time_gives(schedule):
    engine, pool = world(label=lambda i: f"level-{i % 4}", known=False)
    e2h = E2H(batch=5, group=2, schedule=schedule)
    for step in range(8):
        batch = drive(e2h.step(pool, Progress(step, step / 8)), engine)
        assert chances(batch) == pytest.approx(e2h.probabilities(step / 8, 4))
        assert len(batch.groups) == 5
        if schedule == "classic":
            assert {group.prompt.category for group in batch.groups} == {f"level-{step // 2}"}


def test_classic_leaves_the_batch_short_rather_than_take_another_level():
    engine, pool = world(size=12, label=lambda i: f"level-{i % 4}", known=False)
    e2h = E2H(batch=8, group=2, schedule="classic")
    batch = drive(e2h.step(pool, Progress(0)), engine)
    assert sorted({group.prompt.category for group in batch.groups}) == ["level-0"]
    assert len(batch.groups) == 3


def test_the_schedule_begins_when_the_levels_are_measured():
    engine, pool = world(known=False)
    e2h = E2H(batch=5, group=4, categories="difficulty")
    batches = [drive(e2h.step(pool, Progress(step, step / 10)), engine) for step in range(10)]
    assert [len(batch.groups) for batch in batches] == [0] * 8 + [5] * 2
    assert chances(batches[8]) == pytest.approx([0.4, 0.3, 0.2, 0.1])
    assert chances(batches[9]) == pytest.approx([0.25] * 4)


def test_levels_are_ordered_by_hand_where_names_do_not_tell():
    words = ["easy", "hard", "medium", "trivial"]
    engine, pool = world(label=lambda i: words[i % 4], known=False)
    e2h = E2H(batch=4, group=2, order=("trivial", "easy", "medium", "hard"))
    batch = drive(e2h.step(pool, Progress(0)), engine)
    assert e2h.names == ["trivial", "easy", "medium", "hard"]
    assert "trivial (10), easy (10), medium (10), hard (10)" in batch.notices[0]
    assert "from easy to hard" in batch.notices[0]
    assert all(
        e2h.names[arm] == prompt.category
        for arm, prompt in zip(e2h.arm_of, pool.prompts, strict=True)
    )


@pytest.mark.parametrize("order", [("easy",), ("easy", "easy"), ("easy", "hard", "harder")])
def test_an_order_names_every_label_once(order):
    engine, pool = world(label=lambda i: ["easy", "hard"][i % 2])
    with pytest.raises(MetisError, match=r"curriculum.order = .*name every category"):
        drive(E2H(order=order).step(pool, Progress(0)), engine)


def test_clusters_need_difficulties_to_be_ordered_by():
    engine, pool = world(known=False)
    for kind in ("clusters", "auto"):
        with pytest.raises(MetisError, match=f"'{kind}': clusters have no order"):
            drive(E2H(categories=kind).step(pool, Progress(0)), engine)


@pytest.mark.parametrize(
    ("knobs", "key"),
    [
        ({"sigma": 0.0}, "sigma"),
        ({"exponent": 0.0}, "exponent"),
        ({"arms": 0}, "arms"),
        ({"order": ("a",), "categories": "difficulty"}, "order"),
    ],
)
def test_knobs_are_checked(knobs, key):
    with pytest.raises(MetisError, match=f"curriculum.{key} = "):
        E2H(**knobs)
