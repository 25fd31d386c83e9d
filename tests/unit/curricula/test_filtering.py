"""The accounts of the methods that filter by rollouts, and what they say of short batches."""

import pytest

from metis import Pool, Progress, drive
from metis.curricula import CURRICULA
from metis.curricula.filtering import EMPTY, FULL, SHORT, shortage
from metis.engines.simulated import SimulatedEngine, Simulation
from metis.meter import Meter


@pytest.mark.parametrize("rewards", ["binary", "continuous"])
@pytest.mark.parametrize("failures", [0.0, 0.3])
@pytest.mark.parametrize("name", ["dapo", "speed", "vcrl", "greso"])
def test_every_rollout_is_trained_on_discarded_failed_or_still_held(name, failures, rewards):
    engine = SimulatedEngine(Simulation(200, 1, rewards=rewards, failures=failures))
    pool, meter = Pool(engine.pool, rewards=rewards), Meter(engine)
    curriculum = CURRICULA[name](batch=8, group=4)
    discarded = 0.0
    for step in range(25):
        batch = drive(curriculum.step(pool, Progress(step, policy=engine.policy)), meter)
        discarded += batch.metrics["select/discarded"]
        if batch.groups:
            meter.update(batch)
    held = [*getattr(curriculum, "waiting", []), *getattr(curriculum, "ready", [])]
    buffered = sum(len(group.rewards) for group in held)
    counts = meter.counts
    accounted = counts["rollout/trained"] + counts["rollout/failed"] + discarded + buffered
    assert counts["rollout/generated"] == accounted


def test_a_shortage_is_told_when_it_gets_worse():
    assert shortage(8, 8, FULL, "why") == (FULL, [])
    assert shortage(7, 8, FULL, "why") == (SHORT, ["why: training on 7 of 8 groups"])
    assert shortage(6, 8, SHORT, "why") == (SHORT, [])
    assert shortage(0, 8, SHORT, "why") == (EMPTY, ["why: no update"])
    assert shortage(0, 8, EMPTY, "why") == (EMPTY, [])
    assert shortage(3, 8, EMPTY, "why") == (SHORT, [])
    assert shortage(4, 8, FULL, "why", enough=0.5) == (FULL, [])
    assert shortage(3, 8, FULL, "why", enough=0.5)[0] == SHORT
