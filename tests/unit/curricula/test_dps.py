"""The filter of a prompt by hand, three steps of it, and what is selected."""

import numpy as np
import pytest

from metis import Group, MetisError, Pool, Progress, Prompt, drive
from metis.curricula.dps import Dps
from metis.engines.simulated import SimulatedEngine, Simulation


def group(*rewards, prompt="x"):
    return Group(Prompt(prompt, prompt), rewards)


def after(*steps, **knobs):
    """A filter that has seen one group a step, or none."""
    curriculum = Dps(**knobs)
    for shown in steps:
        curriculum.observe([shown] if shown else [])
    return curriculum


FAILED, MIXED, PASSED = group(0.0, 0.0), group(1.0, 0.0), group(1.0, 1.0)


def test_the_first_group_by_hand():
    """Before, each state is a third likely. A mixed group adds a third of a count to each
    transition to `mixed`: its columns are 1, 4/3, 1, so that it stays mixed with 4/10."""
    curriculum = after(MIXED)
    assert curriculum.transitions[0] == pytest.approx(
        np.array([[1, 1, 1], [4 / 3, 4 / 3, 4 / 3], [1, 1, 1]])
    )
    assert curriculum.states[0] == pytest.approx([0.3, 0.4, 0.3])
    assert after(FAILED).states[0] == pytest.approx([0.4, 0.3, 0.3])
    assert after(PASSED).states[0] == pytest.approx([0.3, 0.3, 0.4])


def test_a_step_without_a_group_by_hand():
    """The third decays to 0.7/3: a column is 1, 1.2333, 1 of 3.2333."""
    curriculum = after(MIXED, None)
    assert curriculum.transitions[0, 1] == pytest.approx([1 + 0.7 / 3] * 3)
    unseen, mixed = 1 / (3 + 0.7 / 3), (1 + 0.7 / 3) / (3 + 0.7 / 3)
    assert curriculum.states[0] == pytest.approx([unseen, mixed, unseen])


def test_a_second_group_counts_the_transition_that_was_seen():
    """It was mixed and fails now: the whole count goes from `mixed` to `unsolved`."""
    curriculum = after(MIXED, FAILED)
    kept = 1 + 0.7 / 3
    assert curriculum.transitions[0] == pytest.approx(
        np.array([[1, 2, 1], [kept, kept, kept], [1, 1, 1]])
    )
    assert curriculum.states[0] == pytest.approx(np.array([1, kept, 1]) / (2 + kept))


def test_what_is_not_observed_for_long_is_forgotten():
    assert after(MIXED, *[None] * 60).states[0] == pytest.approx([1 / 3] * 3)
    kept = after(MIXED, *[None] * 60, decay=1.0).states[0]
    assert kept == pytest.approx([0.3, 0.4, 0.3])


def test_a_state_is_told_by_variance_then_by_the_mean():
    shows = Dps()._state
    assert shows(group(0.3, 0.7)) == 1
    assert shows(group(0.4, 0.4)) == 0 and shows(group(0.6, 0.6)) == 2
    assert shows(group(1.0)) is None and shows(group()) is None
    assert after(group(1.0)).rows == {}


def test_the_likeliest_to_be_mixed_are_selected():
    engine = SimulatedEngine(Simulation(prompts=6, heldout=1))
    pool = Pool(engine.pool)
    curriculum = Dps(batch=2, group=4, multiplier=3)
    names = [prompt.id for prompt in pool.prompts]
    shown = zip(names[:3], [(1.0, 0.0), (0.0, 0.0), (1.0, 0.0)], strict=True)
    curriculum.observe([group(*rewards, prompt=name) for name, rewards in shown])
    batch = drive(curriculum.step(pool, Progress(0)), engine)
    assert {group.prompt.id for group in batch.groups} == {names[0], names[2]}
    scores = {decision.prompt.id: decision.score for decision in batch.decisions}
    assert scores[names[0]] == pytest.approx(0.4) and scores[names[1]] == pytest.approx(0.3)
    assert scores[names[5]] == pytest.approx(1 / 3)
    assert batch.metrics == {"select/candidates": 6.0, "select/known": 3.0}


def test_prompts_never_seen_are_drawn_at_random():
    taken = set()
    for seed in range(20):
        engine = SimulatedEngine(Simulation(prompts=8, heldout=1))
        plan = Dps(batch=1, group=2, multiplier=8).step(Pool(engine.pool), Progress(0, seed=seed))
        taken |= {group.prompt.id for group in drive(plan, engine).groups}
    assert len(taken) > 3


def test_it_prefers_prompts_that_vary():
    engine = SimulatedEngine(Simulation(prompts=200, heldout=1))
    pool, curriculum = Pool(engine.pool), Dps(batch=16, group=8, multiplier=8)
    batches = [drive(curriculum.step(pool, Progress(i)), engine) for i in range(60)]
    late = [group.variance for batch in batches[30:] for group in batch.groups]
    everything = [group.variance for group in engine.rollout(pool.prompts, 8)]
    assert sum(late) / len(late) > 1.5 * sum(everything) / len(everything)


@pytest.mark.parametrize("knobs", [{"decay": 1.5}, {"prior": 0.0}, {"multiplier": 0}])
def test_bad_knobs_are_refused_by_name(knobs):
    (name,) = knobs
    with pytest.raises(MetisError, match=f"curriculum.{name} = "):
        Dps(**knobs)
