"""The arms that `sec`, `dump` and `e2h` share: how they are made, kept and drawn from."""

import math
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metis import MetisError, Pool, Progress, Prompt, drive
from metis.core import Group, Trajectory
from metis.core import state as states
from metis.curricula import CURRICULA
from metis.curricula.arms.partition import (
    DIMENSIONS,
    absolute_advantages,
    by_label,
    by_quantile,
    draw_arms,
    kmeans,
    project,
)
from metis.engines.simulated import SimulatedEngine, Simulation

deterministic = settings(derandomize=True, deadline=None)
armed = pytest.mark.parametrize("name", ["sec", "dump", "e2h"])
BATCH, ROLLOUTS = 6, 4


def prompts(categories, difficulties=None):
    difficulties = difficulties or [None] * len(categories)
    return [
        Prompt(f"p:{i}", f"problem {i}", category, difficulty)
        for i, (category, difficulty) in enumerate(zip(categories, difficulties, strict=True))
    ]


def world(size=60, known=True):
    engine = SimulatedEngine(Simulation(prompts=size, heldout=1))
    pool = engine.pool if known else [replace(prompt, difficulty=None) for prompt in engine.pool]
    return engine, Pool(pool)


def make(name, **knobs):
    return CURRICULA[name](batch=BATCH, group=ROLLOUTS, **knobs)


def run(curriculum, engine, pool, steps, start=0, total=24):
    batches = []
    for step in range(start, start + steps):
        batch = drive(curriculum.step(pool, Progress(step, step / total, engine.version)), engine)
        if batch.groups:
            engine.update(batch)
        batches.append(batch)
    return batches


def group(rewards):
    rewards = tuple(rewards)
    nothing = Trajectory(np.zeros(1, int), np.ones(1, bool), np.zeros(1, np.float32), 0)
    return Group(Prompt("p", ""), rewards, (nothing,) * len(rewards))


# Labels


def test_labels_are_in_the_order_of_their_names_as_people_read_them():
    pool = Pool(prompts(["level-10", "level-2", "", "level-2", "algebra"]))
    assert by_label(pool) == (["", "algebra", "level-2", "level-10"], [3, 2, 0, 2, 1])


def test_labels_are_ordered_by_mean_difficulty_where_every_prompt_has_one():
    labels = ["easy", "hard", "trivial", "hard"]
    assert by_label(Pool(prompts(labels, [2.0, 9.0, 1.0, 1.5]))).names == [
        "trivial",
        "easy",
        "hard",
    ]
    assert by_label(Pool(prompts(labels, [9.0, 1.0, 9.0, None]))).names == [
        "easy",
        "hard",
        "trivial",
    ]


@armed
@pytest.mark.parametrize("label", ["", "math"])
def test_data_without_categories_are_refused_with_what_to_use_instead(name, label):
    pool = Pool(prompts([label] * 7))
    with pytest.raises(MetisError, match=rf"'label': all 7 .* '{label}'.*difficulty or clusters"):
        drive(make(name).step(pool, Progress(0)), world()[0])


@armed
def test_the_empty_label_is_an_arm_like_the_others(name):
    engine, _ = world()
    pool = Pool([replace(prompt, category="x" * (i % 2)) for i, prompt in enumerate(engine.pool)])
    (batch,) = run(make(name), engine, pool, 1)
    assert len(batch.groups) == BATCH
    assert "no label (30)" in batch.notices[0]
    assert "x (30)" in batch.notices[0]


# Difficulty


@deterministic
@given(st.lists(st.floats(-5, 5) | st.just(math.nan), min_size=1, max_size=30), st.integers(1, 12))
def test_quantiles_are_of_equal_size_and_in_order(values, arms):
    values = np.array(values)
    names, arm_of = by_quantile(values, arms, random.Random(0))
    sizes = Counter(arm_of)
    assert len(names) == len(sizes) == min(arms, len(values))
    assert max(sizes.values()) - min(sizes.values()) <= 1
    known = values[~np.isnan(values)]
    filled = np.where(np.isnan(values), known.mean() if known.size else 0.0, values)
    for easier, harder in zip(range(len(names)), range(1, len(names)), strict=False):
        arm = np.array(arm_of)
        assert filled[arm == easier].max() <= filled[arm == harder].min()


def test_equal_difficulties_are_cut_at_random_not_in_the_order_of_the_data():
    _, arm_of = by_quantile(np.zeros(40), 2, random.Random(1))
    assert arm_of != [0] * 20 + [1] * 20
    assert Counter(arm_of) == {0: 20, 1: 20}


def test_the_difficulties_of_the_data_need_no_pass():
    engine, pool = world()
    sec = make("sec", categories="difficulty", arms=4)
    (batch,) = run(sec, engine, pool, 1)
    assert len(batch.groups) == BATCH
    order = np.argsort([prompt.difficulty for prompt in pool.prompts])
    assert [sec.arm_of[i] for i in order] == [0] * 15 + [1] * 15 + [2] * 15 + [3] * 15
    assert batch.notices == [
        "4 arms by difficulty (distinct values: 60): difficulty-1 (15), difficulty-2 (15), "
        "difficulty-3 (15), difficulty-4 (15)"
    ]
    assert [batch.metrics[f"select/arm_{arm}_size"] for arm in range(4)] == [15.0] * 4


def test_the_difficulty_pass_is_bounded_announced_and_accounted_for():
    engine, pool = world(known=False)
    sec = make("sec", categories="difficulty", arms=3, measure=2)
    batches = run(sec, engine, pool, 8)
    share = BATCH * ROLLOUTS // 2
    assert [len(batch.groups) for batch in batches] == [0] * 5 + [BATCH] * 3
    assert [batch.metrics["select/discarded"] for batch in batches] == [2.0 * share] * 5 + [0.0] * 3
    assert "3 arms by difficulty (distinct values: 3): difficulty-1 (20)" in batches[5].notices[0]
    assert [batch.metrics["select/measured"] for batch in batches[:5]] == [12, 24, 36, 48, 60]
    assert [len(batch.notices) for batch in batches] == [1, 0, 0, 0, 0, 1, 0, 0]
    assert "difficulty of 60 prompts; steps without an update: 5" in batches[0].notices[0]
    assert sec.measured == []
    assert sec.start == 5 / 24
    easy, hard = (
        np.mean([engine.difficulty[i] for i in range(60) if sec.arm_of[i] == arm]) for arm in (0, 2)
    )
    assert easy < hard - 2


def test_prompts_that_only_failed_in_the_pass_count_as_average():
    engine, pool = world(known=False)

    class Failing(SimulatedEngine):
        def rollout(self, prompts, n):
            groups = super().rollout(prompts, n)
            return [Group(g.prompt, (), (), failed=n) for g in groups]

    dump = make("dump", categories="difficulty", arms=4)
    run(dump, Failing(engine.simulation), pool, 12)
    assert sorted(Counter(dump.arm_of).values()) == [15] * 4


# Clusters


def test_clusters_are_found_and_the_same_seed_finds_the_same():
    generator = np.random.default_rng(0)
    centres = 10 * np.eye(3, 8)
    truth = generator.integers(3, size=90)
    vectors = (centres[truth] + generator.normal(0, 0.3, (90, 8))).astype(np.float32)
    found = kmeans(vectors, 3, random.Random(5))
    assert len({(a, b) for a, b in zip(truth, found, strict=True)}) == 3
    assert found.tolist() == kmeans(vectors, 3, random.Random(5)).tolist()


def test_there_are_no_more_clusters_than_different_vectors_and_none_is_empty():
    vectors = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [1, 1]], dtype=np.float32)
    assert sorted(set(kmeans(vectors, 10, random.Random(0)).tolist())) == [0, 1, 2]
    assert kmeans(np.ones((4, 3), np.float32), 10, random.Random(0)).tolist() == [0] * 4
    assert kmeans(np.ones((1, 3), np.float32), 10, random.Random(0)).tolist() == [0]


def test_wide_vectors_are_kept_in_few_dimensions_that_preserve_their_distances():
    vectors = np.random.default_rng(0).normal(size=(40, 1500)).astype(np.float32)
    short = project(vectors, random.Random(3))
    assert short.shape == (40, DIMENSIONS)
    assert np.array_equal(short[7:9], project(vectors[7:9], random.Random(3)))
    lengths = np.linalg.norm(short, axis=1) / np.linalg.norm(vectors, axis=1)
    assert 0.6 < lengths.min() < lengths.max() < 1.4


def test_hidden_states_are_gathered_in_bounded_parts_and_make_arms():
    engine, pool = world(size=400)
    sec = make("sec", categories="clusters", arms=5)
    batches = run(sec, engine, pool, 4)
    assert [len(batch.groups) for batch in batches] == [0, 0, 0, BATCH]
    assert [batch.metrics["select/measured"] for batch in batches[:3]] == [192, 384, 400]
    assert set(sec.arm_of) == set(range(5))
    means = [
        np.mean([engine.difficulty[i] for i in range(400) if sec.arm_of[i] == arm])
        for arm in range(5)
    ]
    assert means == sorted(means)


def test_arms_of_an_earlier_checkpoint_are_a_list():
    engine, pool = world(size=40)
    sec = make("sec")
    run(sec, engine, pool, 1)
    saved = sec.state_dict()
    again = make("sec")
    again.load_state_dict({**saved, "arm_of": saved["arm_of"].tolist()})
    assert [len(part) for part in again._members()] == [len(part) for part in sec._members()]


def test_left_to_the_data_arms_are_difficulties_or_else_clusters_and_that_is_said():
    """SEC's preset of the paper on data without difficulties has nothing to measure by rollouts."""
    engine, pool = world(size=40)
    known = make("sec", categories="auto", arms=4)
    (batch,) = run(known, engine, pool, 1)
    assert batch.groups and known.names[0] == "difficulty-1"
    assert "4 arms by difficulty" in batch.notices[0]

    engine, pool = world(size=40, known=False)
    unknown = make("sec", categories="auto", arms=4)
    engine.rollout = None  # which measuring does without
    (batch,) = run(unknown, engine, pool, 1)
    assert not batch.groups and batch.metrics["select/discarded"] == 0
    assert unknown.names[0] == "cluster-1"
    assert "the data has no difficulties, which would take 160 rollouts" in batch.notices[0]
    del engine.rollout
    (batch,) = run(unknown, engine, pool, 1, start=1)
    assert "4 arms by clusters" in batch.notices[0]


# Drawing


@deterministic
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.1, 1.0]), st.integers(0, 6)), max_size=6),
    st.integers(0, 20),
    st.booleans(),
)
def test_a_draw_is_full_unless_the_arms_with_a_chance_are_used_up(arms, slots, whole):
    chances, sizes = [chance for chance, _ in arms], [size for _, size in arms]
    counts = Counter(draw_arms(chances, sizes, slots, random.Random(0), whole))
    room = sum(size for chance, size in arms if chance)
    assert counts.total() == min(slots, room)
    assert all(counts[arm] <= (size if chances[arm] else 0) for arm, size in enumerate(sizes))


def test_slots_follow_the_chances_and_a_whole_draw_is_of_one_arm():
    rng = random.Random(0)
    drawn = Counter(draw_arms([0.5, 0.3, 0.2], [10**6] * 3, 20_000, rng))
    assert [drawn[arm] / 20_000 for arm in range(3)] == pytest.approx([0.5, 0.3, 0.2], abs=0.01)
    firsts = Counter()
    for _ in range(300):
        arms = draw_arms([0.5, 0.5], [8, 5], 8, rng, whole=True)
        assert Counter(arms) in ({0: 8}, {1: 5, 0: 3})
        firsts[arms[0]] += 1
    assert 110 < firsts[0] < 190


def test_advantages_are_divided_by_the_deviation_unless_raw():
    assert absolute_advantages(group([1, 0, 0, 0]), "raw") == [0.75, 0.25, 0.25, 0.25]
    assert absolute_advantages(group([1, 0, 0, 0]), "normalised") == pytest.approx(
        [1.5, 0.5, 0.5, 0.5], rel=1e-5
    )
    assert absolute_advantages(group([1, 1]), "normalised") == [0.0, 0.0]
    assert absolute_advantages(group([1]), "raw") == absolute_advantages(group([]), "raw") == []


# All three methods, all three ways to make arms


@armed
@pytest.mark.parametrize("categories", ["label", "difficulty", "clusters", "auto"])
@pytest.mark.parametrize("size", [1, 4, BATCH + 1, 60])
@pytest.mark.parametrize("arms", [1, 7])
def test_batches_are_full_and_distinct_whatever_the_arms(name, categories, size, arms):
    engine, pool = world(size)
    for batch in run(make(name, categories=categories, arms=arms), engine, pool, 9):
        ids = [g.prompt.id for g in batch.groups]
        assert len(ids) == len(set(ids))
        if "select/measured" not in batch.metrics:
            assert len(ids) == min(BATCH, size)
            chances = [batch.metrics[key] for key in batch.metrics if key.endswith("_chance")]
            assert sum(chances) == pytest.approx(1.0)


@armed
@pytest.mark.parametrize(
    ("categories", "known"), [("label", True), ("difficulty", False), ("clusters", True)]
)
@pytest.mark.parametrize("cut", [1, 3, 9, 12])
def test_a_run_killed_inside_or_after_the_pass_goes_on_as_if_it_had_not_been(
    name, categories, known, cut, tmp_path
):
    def fresh():
        return make(name, categories=categories, arms=5), *world(known=known)

    def trace(batches):
        return [
            ([g.prompt.id for g in batch.groups], dict(batch.metrics), batch.notices)
            for batch in batches
        ]

    curriculum, engine, pool = fresh()
    straight = trace(run(curriculum, engine, pool, 16))
    curriculum, engine, pool = fresh()
    first = trace(run(curriculum, engine, pool, cut))
    parts = (curriculum, engine, pool)
    states.save_state(
        tmp_path / "state", {str(i): part.state_dict() for i, part in enumerate(parts)}
    )
    saved = states.load_state(tmp_path / "state")
    curriculum, engine, pool = fresh()
    for i, part in enumerate((curriculum, engine, pool)):
        part.load_state_dict(saved[str(i)])
    assert first + trace(run(curriculum, engine, pool, 16 - cut, start=cut)) == straight


def test_many_arms_are_not_logged_one_by_one():
    engine, _ = world(60)
    pool = Pool([replace(p, category=f"c{i // 2}") for i, p in enumerate(engine.pool)])
    assert len(pool.categories) == 30
    few = run(make("sec"), engine, pool, 1)[0]
    many = Pool([replace(p, category=f"c{i}") for i, p in enumerate(engine.pool)])
    lots = run(make("sec"), engine, many, 1)[0]
    assert "select/arm_29_chance" in few.metrics
    assert dict(lots.metrics) == {"select/arms": 60.0, "select/discarded": 0.0}
    assert "and 28 more; an arm fills at most as many of the 6 slots" in lots.notices[0]


@armed
@pytest.mark.parametrize(("total", "said"), [(4, "125%"), (5, "100%"), (8, "62%"), (20, None)])
def test_a_pass_that_takes_much_of_the_budget_is_told_early(name, total, said):
    engine, pool = world(known=False)
    curriculum = make(name, categories="difficulty", measure=2)
    notices = [list(b.notices) for b in run(curriculum, engine, pool, 4, total=total)][1:]
    told = f"measuring takes about {said} of the budget"
    if said in ("125%", "100%"):
        told += ", so that there will be no training"
    assert [len(each) for each in notices] == [1 if said else 0, 0, 0]
    assert not said or notices[0][0].startswith(told)


def test_the_arms_of_a_batch_are_mixed():
    """Mini-batches are cut in order: an arm too small for a step would be the first of them."""
    engine, pool = world(known=True)
    small = Pool([replace(p, category=f"c{i % 20}") for i, p in enumerate(pool.prompts)])
    sec = make("sec", draw="step")
    orders = [[d.reason for d in batch.decisions] for batch in run(sec, engine, small, 10)]
    assert all(len(set(order)) == 2 for order in orders)  # three prompts of each of two arms
    assert any(order[:3].count(order[0]) < 3 for order in orders)
