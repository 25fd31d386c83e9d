"""The sentence about an arm: costs that disagree with its steps are named.

The mean of the last two tests is the best of a straight curve: 45 at step 50 for the baseline.
"""

import numpy as np
import pytest

from metis.compare.comparison import Comparison
from metis.compare.measures import AXES, Measured
from metis.compare.table import verdicts

STEPS = np.arange(0.0, 60.0, 10.0)


def arm(name, speed, seeds=3, **dearness):
    """Runs whose accuracy rises in proportion to steps, at costs in proportion too."""
    accuracy = np.stack([STEPS * speed / 100 + offset / 1000 for offset in range(seeds)])
    factors = {axis: dearness.get(axis.replace(" ", "_"), 1.0) for axis in AXES}
    spent = {axis: np.tile(STEPS * factor, (seeds, 1)) for axis, factor in factors.items()}
    return Measured(name, tuple(range(seeds)), (), tuple(map(int, STEPS)), accuracy, spent)


def said(one, untimed="Runs shared a device", baseline=1.0):
    ((_, sentence),) = verdicts(Comparison(arm("uniform", baseline), [one], untimed))
    return sentence


def test_fewer_steps_of_more_rollouts_are_not_called_faster_alone():
    sentence = said(arm("big", 2.0, rollouts=4.0, generated_tokens=1.0, seconds=4.0))
    assert "needs 0.45" in sentence and ": faster" in sentence
    assert sentence.endswith(" At that accuracy it has spent more: 1.80 of uniform's rollouts.")


def test_more_steps_that_cost_less_are_said_to():
    sentence = said(arm("small", 0.5, rollouts=0.25, generated_tokens=0.25), untimed="")
    assert ": slower" in sentence and "it has spent less: 0.56 of" in sentence
    assert "rollouts" in sentence and "generated tokens" in sentence and "seconds" not in sentence


@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
def test_costs_that_agree_are_not_repeated(speed):
    assert "At that accuracy" not in said(arm("same", speed))


def test_a_cost_that_was_not_counted_says_nothing():
    assert "processed" not in said(arm("old", 2.0, processed_tokens=0.0))


def test_of_one_seed_no_number_of_seeds_is_reckoned():
    sentence = said(arm("once", 2.0, seeds=1))
    assert "one seed cannot tell that from noise; 4 of each can." in sentence
    assert "100 seeds" not in sentence and "p =" not in sentence


@pytest.mark.parametrize(
    ("speed", "baseline", "idle"),
    [(1.0, 0.0, "uniform"), (0.0, 1.0, "one"), (-1.0, -1.0, "one and uniform")],
)
def test_an_arm_that_does_not_improve_has_no_cost_to_compare(speed, baseline, idle):
    """A baseline that stays where it began would have reached it at no cost at all."""
    sentence = said(arm("one", speed), baseline=baseline)
    assert sentence == f"no cost to compare: {idle} did not improve on the first test."


def test_a_ratio_beyond_measure_is_not_written_out():
    """The baseline has passed the arm's best before its second test."""
    assert "needs over 100 times uniform's steps" in said(arm("slow", 0.05))
