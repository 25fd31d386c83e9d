"""On recorded outcomes a ranking is the readout judge's: the same labels give the same scores."""

import random
from pathlib import Path

import numpy as np
import pytest

from metis import Group, Pool, Progress, Prompt, drive
from metis.core import Engine
from metis.curricula.judges import Readout
from metis.curricula.judges.regressions import regression
from metis.curricula.judges.skill import spearman
from metis.settings.sections import curriculum_of
from metis.surveys.outcome_set import OutcomeSet

SETS = Path(__file__).parents[3] / "evidence/judge-offline"
WIDTH, LABELS, BATCH = 48, 256, 32


class Recorded(Engine):
    """Outcomes of a set, and states that say something of them in noise."""

    def __init__(self, outcomes):
        self.outcomes = {each.prompt: each for each in outcomes}
        draw = np.random.default_rng(0)
        self.states = {
            each.prompt: (draw.normal(size=WIDTH) + np.mean(each.rewards)).astype(np.float32)
            for each in outcomes
        }

    def rollout(self, prompts, n):
        return [Group(prompt, self.outcomes[prompt.id].rewards) for prompt in prompts]

    def embed(self, prompts, depths):
        return [self.states[prompt.id] for prompt in prompts]


class InOrder(Pool):
    """Draws the next of these prompts."""

    def __init__(self, prompts):
        super().__init__(prompts)
        self.waiting = list(prompts)

    def sample(self, count, **_):
        drawn, self.waiting = self.waiting[:count], self.waiting[count:]
        return drawn


@pytest.mark.parametrize("name", ["dapo", "math"])
def test_scores_and_their_rank_correlation_are_those_of_the_readout_judge(name):
    outcomes = OutcomeSet.read(SETS / f"{name}.jsonl.gz").outcomes
    engine = Recorded(outcomes)
    prompts = random.Random(0).sample([Prompt(each.prompt, "") for each in outcomes], 700)
    trained, rest = prompts[:LABELS], prompts[LABELS:]

    judge = Readout()
    judge.label(engine.embed(trained, [2 / 3]), engine.rollout(trained, 8), step=0)
    readings = judge.fit(regression(judge.regression, "binary")).read(engine.embed(rest, [2 / 3]))
    ranked = [reading.variance for reading in readings]

    section = {"name": "metis", "multiplier": 1, "explore": 1.0, "trial": 0}
    section["judge"] = {"name": "readout", "window": 1 << 20}
    curriculum, pool = curriculum_of(section, BATCH, 8), InOrder(trained)
    for step in range(LABELS // BATCH):
        drive(curriculum.step(pool, Progress(step)), engine)
    asked = curriculum_of({**section, "multiplier": -(-len(rest) // BATCH)}, BATCH, 8)
    asked.load_state_dict(curriculum.state_dict())
    decisions = drive(asked.step(InOrder(rest), Progress(LABELS // BATCH)), engine).decisions
    scores = {each.prompt.id: each.score for each in decisions}

    assert ranked == pytest.approx([scores[prompt.id] for prompt in rest], rel=1e-6)
    actual = [engine.outcomes[prompt.id].variance for prompt in rest]
    both = [spearman(values, actual) for values in (ranked, [scores[p.id] for p in rest])]
    assert both[0] == pytest.approx(both[1], abs=1e-6) and both[0] > 0.1
