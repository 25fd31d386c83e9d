"""The simulated judge: every judgment reaches its table, and its gradient is bounded."""

import numpy as np
import pytest

from metis import Batch, Group, Progress, drive
from metis.core import Continuation, Judgment
from metis.curricula.judges import Direct
from metis.curricula.judges.prompt import turns
from metis.curricula.judges.scale import PASSES, VARIANCE
from metis.curricula.metis import Metis
from metis.engines.simulated import Simulation, build_simulation


def judgment(prompt, scale, key=""):
    """A judgment whose rows push the first answer up and the second one down."""
    [chat] = turns([prompt.text], [], scale)
    return [
        Judgment(prompt, Continuation(chat, scale.choices[i], -1.0), advantage, 1.0, False, key)
        for i, advantage in enumerate((1.0, -1.0))
    ]


@pytest.mark.parametrize("scale", [VARIANCE, PASSES], ids=lambda scale: scale.name)
def test_a_replayed_judgment_of_a_prompt_that_is_not_in_the_batch_is_learnt_from(scale):
    engine, pool = build_simulation(Simulation(prompts=50, heldout=1))
    here, elsewhere = pool.prompts[:2]
    [chat] = turns([elsewhere.text], [], scale)
    [before] = engine.score([chat], scale.choices)
    rows = judgment(elsewhere, scale, "step 3")
    engine.update(Batch([Group(here, (), (), failed=2)], rows, gradient_share=1.0))
    [after] = engine.score([chat], scale.choices)
    assert after[0] > before[0] and after[1] < before[1]


def test_the_step_is_the_mean_over_judgments_within_the_bound():
    engine, pool = build_simulation(Simulation(prompts=50, heldout=1, judge_rate=1.0))
    prompts = pool.prompts[:4]
    groups = [Group(prompt, (), (), failed=2) for prompt in prompts]
    rows = [row for prompt in prompts for row in judgment(prompt, VARIANCE)]
    before = engine.judge.copy()
    engine.update(Batch(groups, rows, gradient_share=0.5))
    assert np.linalg.norm(engine.judge - before) == pytest.approx(0.5 * 0.1)


@pytest.mark.parametrize("scale", ["variance", "passes"])
def test_the_judge_learns_on_either_scale(scale):
    engine, pool = build_simulation(Simulation(prompts=1000, heldout=1, noise=0.1))
    curriculum = Metis(batch=16, multiplier=3, judge=Direct(scale=scale, replay=16))
    for step in range(30):
        batch = drive(curriculum.step(pool, Progress(step, policy=engine.version)), engine)
        engine.update(batch)
    assert batch.metrics["judge/spearman"] > 0.3
