"""MoPPS: the posterior by hand, the three choices, and what is left unobserved."""

import random

import pytest

from metis import Group, MetisError, Pool, Progress, Prompt, drive
from metis.curricula.mopps import Mopps
from metis.engines.simulated import SimulatedEngine, Simulation


def observed(curriculum, rewards, prompt="x"):
    curriculum._observe(Group(Prompt(prompt, prompt), tuple(rewards), (None,) * len(rewards)))
    return curriculum.posterior.get(prompt)


def test_three_of_eight_make_a_beta_4_6():
    assert observed(Mopps(), [1.0] * 3 + [0.0] * 5) == [4.0, 6.0]


def test_decay_forgets_towards_the_prior():
    """By hand: (4, 6) halved is (2, 3), plus half of the prior (1, 1), plus 8 of 8."""
    curriculum = Mopps(decay=0.5)
    curriculum.posterior["x"] = [4.0, 6.0]
    assert observed(curriculum, [1.0] * 8) == [10.5, 3.5]
    assert observed(Mopps(decay=0.0), [1.0, 0.0, 0.0]) == [2.0, 3.0]


def test_continuous_rewards_are_fractional_counts():
    assert observed(Mopps(), [0.25, 0.5, 1.0, 0.0]) == [2.75, 3.25]


def test_failed_rollouts_are_not_counted():
    assert observed(Mopps(), [1.0, 0.0]) == [2.0, 2.0]
    assert observed(Mopps(decay=0.5), []) is None


def test_only_prompts_that_were_rolled_out_change():
    engine = SimulatedEngine(Simulation(prompts=50, heldout=1))
    curriculum, pool = Mopps(batch=4, group=8, multiplier=2, decay=0.5), Pool(engine.pool)
    batch = drive(curriculum.step(pool, Progress(0)), engine)
    assert set(curriculum.posterior) == {group.prompt.id for group in batch.groups}
    assert len(batch.decisions) == 8 and sum(d.chosen for d in batch.decisions) == 4
    for group in batch.groups:
        k = sum(group.rewards)
        assert curriculum.posterior[group.prompt.id] == [1 + k, 1 + 8 - k]


SURE = [[1e6, 1e6], [1.0, 1e6], [1e6, 1.0], [65e4, 35e4], [36e4, 64e4], [9e5, 1e5]]
"""Posteriors so narrow that draws are their means: .5, 0, 1, .65, .36, .9."""


def test_topk_takes_the_draws_nearest_to_the_target():
    draws, chosen = Mopps(batch=3)._choose(SURE, random.Random(0))
    assert draws == pytest.approx([0.5, 0.0, 1.0, 0.65, 0.36, 0.9], abs=0.01)
    assert chosen == [0, 4, 3]
    assert Mopps(batch=1, target=0.97)._choose(SURE, random.Random(0))[1] == [2]


def test_threshold_takes_any_inside_the_band_then_the_nearest():
    curriculum = Mopps(batch=1, choice="threshold")
    taken = [curriculum._choose(SURE, random.Random(seed))[1][0] for seed in range(60)]
    assert set(taken) == {0, 3, 4}
    assert set(Mopps(batch=3, choice="threshold")._choose(SURE, random.Random(1))[1]) == {0, 3, 4}
    assert Mopps(batch=5, choice="threshold")._choose(SURE, random.Random(1))[1][:3] == [0, 3, 4]
    assert Mopps(batch=4, choice="threshold")._choose(SURE, random.Random(1))[1][3] == 5
    everything = Mopps(batch=99, choice="threshold")._choose(SURE, random.Random(1))[1]
    assert sorted(everything) == list(range(6))


def test_the_choice_mapp_draws_by_the_chance_of_a_mixed_group():
    scores, chosen = Mopps(batch=2, choice="mapp")._choose(SURE[:3], random.Random(0))
    assert scores == pytest.approx([1 - 2 / 2**8, 0, 0], abs=1e-4) and chosen[0] == 0


def test_it_prefers_prompts_that_vary():
    engine = SimulatedEngine(Simulation(prompts=200, heldout=1))
    pool = Pool(engine.pool)
    variances = {}
    for name in ("topk", "threshold", "mapp"):
        curriculum = Mopps(batch=16, group=8, multiplier=8, choice=name)
        batches = [drive(curriculum.step(pool, Progress(i)), engine) for i in range(60)]
        late = [group.variance for batch in batches[30:] for group in batch.groups]
        variances[name] = sum(late) / len(late)
    everything = [group.variance for group in engine.rollout(pool.prompts, 8)]
    assert all(v > 1.5 * sum(everything) / len(everything) for v in variances.values())


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"decay": 1.5}, "curriculum.decay = 1.5"),
        ({"low": 0.8}, "curriculum.low = 0.8"),
        ({"multiplier": 0}, "curriculum.multiplier = 0"),
    ],
)
def test_impossible_knobs_are_refused(knobs, words):
    with pytest.raises(MetisError, match=words):
        Mopps(**knobs)


@pytest.mark.parametrize("choice", ["topk", "threshold", "mapp"])
def test_the_batch_is_in_the_order_of_the_candidates(choice):
    """Mini-batches are cut in that order: nearest first, the first would be of another kind."""
    engine = SimulatedEngine(Simulation(prompts=50, heldout=1))
    curriculum = Mopps(batch=8, group=2, multiplier=3, choice=choice)
    batch = drive(curriculum.step(Pool(engine.pool), Progress(0)), engine)
    chosen = [decision.prompt.id for decision in batch.decisions if decision.chosen]
    assert [group.prompt.id for group in batch.groups] == chosen
