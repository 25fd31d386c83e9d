"""Rollouts of the simulated policy."""

import numpy as np
import pytest

from metis.core import Rollout
from metis.engines.simulated import SimulatedEngine, Simulation


@pytest.mark.parametrize("failures", [0.0, 0.4])
def test_each_prompt_may_have_its_own_number_of_rollouts(failures):
    engine = SimulatedEngine(Simulation(prompts=40, heldout=1, failures=failures))
    counts = [1 + i % 7 for i in range(40)]
    request = Rollout(engine.pool, counts)
    groups = engine.answer(request)
    assert [len(group.rewards) + group.failed for group in groups] == counts
    assert [len(group.trajectories) for group in groups] == [len(g.rewards) for g in groups]
    cost = request.cost(groups)
    assert cost["rollout/generated"] == sum(counts)
    assert cost["rollout/tokens"] == engine.processed
    assert bool(cost["rollout/failed"]) == bool(failures)


def test_a_prompt_passes_as_often_in_a_large_group_as_in_a_small_one():
    engine = SimulatedEngine(Simulation(prompts=400, heldout=1))
    counts = np.where(np.arange(400) % 2, 200, 50)
    groups = engine.answer(Rollout(engine.pool, counts.tolist()))
    expected = engine._success(np.arange(400))
    errors = np.array([group.mean for group in groups]) - expected
    bound = 5 * np.sqrt(np.maximum(expected * (1 - expected), 1e-2) / counts)
    assert (np.abs(errors) < bound).all()
