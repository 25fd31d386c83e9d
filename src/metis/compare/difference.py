"""How far the mean accuracy of an arm is above another's, and what its interval is over."""

import numpy as np

from metis.compare.inference import Interval, difference
from metis.compare.measures import Measured

CROSSED, RUNS = "runs and problems", "runs"


def above(arm: Measured, baseline: Measured, rng: np.random.Generator) -> tuple[Interval, str]:
    """The difference of accuracies averaged over the tests, which both arms have alike.

    Runs and problems are resampled together where all runs of both arms are tested on the same
    problems. Where each run has its own, they are resampled with it.
    """
    mine, its = arm.problems, baseline.problems
    if mine is not None and its is not None and mine.names == its.names:
        one, other = (each.rewards.mean(axis=1) for each in (mine, its))
        return difference(one, other, rng, mine.sets), CROSSED
    one, other = (each.accuracy.mean(axis=1, keepdims=True) for each in (arm, baseline))
    return difference(one, other, rng), RUNS
