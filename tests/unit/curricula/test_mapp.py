"""The closed form by hand, sampling in proportion to it, and the decay."""

import random

import pytest

from metis import MetisError, Pool, Progress, drive
from metis.curricula.mapp import Mapp, mixed_chance, weighted
from metis.engines.simulated import SimulatedEngine, Simulation


def test_the_chance_of_a_mixed_group_by_hand():
    """Under Beta(1, 1) every count of passes is as likely: 2 of 9 are pure. E gamma^2 of Beta(2, 1)
    is 1/2, E (1 - gamma)^2 is 1/6."""
    assert mixed_chance(1, 1, 8) == pytest.approx(7 / 9)
    assert mixed_chance(2, 1, 2) == pytest.approx(1 - 1 / 2 - 1 / 6)
    assert mixed_chance(4, 6, 8) == pytest.approx(mixed_chance(6, 4, 8))
    assert mixed_chance(1e7, 1, 8) == pytest.approx(0, abs=1e-5) and mixed_chance(1e7, 1, 8) >= 0


def test_a_prompt_that_always_passes_is_still_drawn_now_and_then():
    """After 8 of 8 the posterior is Beta(9, 1), which makes E gamma^8 = 9/17 and
    E (1 - gamma)^8 = 1/24310."""
    assert mixed_chance(9, 1, 8) == pytest.approx(1 - 9 / 17 - 1 / 24310)


def test_sampling_is_in_proportion():
    rng = random.Random(0)
    first = [weighted([3.0, 1.0], 1, rng)[0] for _ in range(4000)]
    assert first.count(0) / 4000 == pytest.approx(0.75, abs=0.03)
    assert sorted(weighted([0.0, 1.0, 2.0], 3, rng)) == [0, 1, 2]


def test_one_step_by_hand():
    """Two rollouts each: the prior gives a mixed group with 1/3, Beta(9, 1) with 1 - 9/11 - 1/55.

    After 1 of 2 the prior, halved towards itself, is Beta(2, 2)."""
    engine = SimulatedEngine(Simulation(prompts=4, heldout=1))
    pool, curriculum = Pool(engine.pool), Mapp(batch=4, group=2, multiplier=1)
    known = pool.prompts[0].id
    curriculum.posterior[known] = [9.0, 1.0]
    batch = drive(curriculum.step(pool, Progress(0)), engine)
    scores = {decision.prompt.id: decision.score for decision in batch.decisions}
    assert scores.pop(known) == pytest.approx(9 / 55)
    assert list(scores.values()) == pytest.approx([1 / 3] * 3)
    for group in batch.groups:
        k, (a, b) = sum(group.rewards), (9, 1) if group.prompt.id == known else (1, 1)
        after = [a / 2 + 0.5 + k, b / 2 + 0.5 + 2 - k]
        assert curriculum.posterior[group.prompt.id] == pytest.approx(after)
    assert Mapp().decay == 0.5


def test_it_prefers_prompts_that_vary():
    engine = SimulatedEngine(Simulation(prompts=200, heldout=1))
    pool, curriculum = Pool(engine.pool), Mapp(batch=16, group=8, multiplier=8)
    batches = [drive(curriculum.step(pool, Progress(i)), engine) for i in range(60)]
    late = [group.variance for batch in batches[30:] for group in batch.groups]
    everything = [group.variance for group in engine.rollout(pool.prompts, 8)]
    assert sum(late) / len(late) > 1.2 * sum(everything) / len(everything)


def test_an_impossible_decay_is_refused():
    with pytest.raises(MetisError, match=r"curriculum\.decay = 1\.5"):
        Mapp(decay=1.5)
