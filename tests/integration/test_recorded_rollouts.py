"""Rollouts from a record: their rewards, and what they leave of an update."""

import pytest

from metis import MetisError, Pool, Progress, drive
from metis.curricula.metis import Metis
from metis.engines.simulated import SimulatedEngine, Simulation
from metis.surveys.facts import PromptOutcome


@pytest.fixture
def recording(benchmark_script):
    return benchmark_script("recorded_rollouts").RecordedRollouts


def record(engine, group=4):
    return [
        PromptOutcome(
            prompt.id, "", tuple(float(i < index % 5) for i in range(group)), (9,) * group, 0, 0
        )
        for index, prompt in enumerate(engine.pool)
    ]


def test_a_curriculum_runs_on_recorded_outcomes_and_asks_the_engine_for_the_rest(recording):
    engine = SimulatedEngine(Simulation(prompts=60, heldout=1))
    recorded, pool = recording(engine, record(engine)), Pool(engine.pool)
    curriculum = Metis(batch=6, group=4)
    before = engine.judge.copy()
    for step in range(4):
        batch = drive(curriculum.step(pool, Progress(step)), recorded)
        for group in batch.groups:
            index = int(group.prompt.id.split(":")[1])
            assert sum(group.rewards) == min(4, index % 5)
            assert [int(t.loss_mask.sum()) for t in group.trajectories] == [9] * 4
        recorded.update(batch)
    assert (engine.judge != before).any()


def test_what_is_not_recorded_is_refused(recording):
    engine = SimulatedEngine(Simulation(prompts=6, heldout=1))
    recorded = recording(engine, record(engine)[:3])
    with pytest.raises(MetisError, match=r"8 rollouts are asked for and 4 are recorded; set group"):
        recorded.rollout(engine.pool[:1], 8)
    with pytest.raises(MetisError, match=r"'simulated:3': 4 rollouts .* none are recorded"):
        recorded.rollout(engine.pool, 4)
