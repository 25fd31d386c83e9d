"""Speed of one arm against another: cost ratios with bootstrap intervals and permutation tests.

Curves are averaged over the runs of an arm, then over three neighbouring tests, but for the first,
which is before training; between tests they are interpolated. Runs, not tests, are what is
resampled: the tests of a run are not independent.
"""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RESAMPLES = 2000
LEVEL = 0.05
"""Chance of claiming a difference where there is none."""
POWER = 1.96 + 0.84
"""Standard errors that an effect must have to be found with four chances in five."""
FEWEST_SEEDS, MOST_SEEDS = 4, 100
"""Seeds of each arm: fewer have no p below `LEVEL`, more are run by nobody."""
FEWEST_TESTS = 3
"""Tests of a pair that a cost is read from: of fewer, smoothing leaves no curve."""


class Runs(NamedTuple):
    """Accuracies and costs of the runs of an arm, one row a run, one column a test."""

    accuracy: Floats
    cost: Floats
    seeds: tuple[int, ...]

    def averaged(self, weights: Floats) -> tuple[Floats, Floats]:
        """Smoothed accuracies and costs under each row of weights over the runs."""
        return smoothed(weights @ self.accuracy), weights @ self.cost

    @property
    def mean(self) -> tuple[Floats, Floats]:
        return self.averaged(np.full((1, len(self.accuracy)), 1 / len(self.accuracy)))


class Ratio(NamedTuple):
    """A cost as a share of the baseline's with its 95% bootstrap interval; infinite where the
    accuracy is never reached, NaN where the baseline did not improve."""

    value: float
    low: float
    high: float


def smoothed(curves: Floats) -> Floats:
    """Every test but the first averaged with its neighbours, along the last axis."""
    whole = np.pad(curves, [(0, 0)] * (curves.ndim - 1) + [(1, 1)], constant_values=np.nan)
    last = curves.shape[-1]
    means: Floats = np.nanmean([whole[..., place : place + last] for place in range(3)], axis=0)
    means[..., :1] = curves[..., :1]
    return means


def crossing(curves: Floats, costs: Floats, levels: Floats) -> Floats:
    """The cost at which each curve first comes to its level; infinite where it never does."""
    reached = curves >= levels[:, None] - 1e-12
    rows, first = np.arange(len(curves)), reached.argmax(axis=1)
    before = np.maximum(first - 1, 0)
    rise = curves[rows, first] - curves[rows, before]
    part = np.divide(
        levels - curves[rows, before], rise, out=np.zeros_like(rise), where=rise > 0
    ).clip(0, 1)
    between = costs[rows, before] + part * (costs[rows, first] - costs[rows, before])
    between = np.where(first == 0, costs[:, 0], between)
    return np.where(reached.any(axis=1), between, np.inf)


def cost_to_best(arm: Runs, baseline: Runs, rng: np.random.Generator) -> Ratio:
    """Cost at which an arm reaches the baseline's best accuracy, over the baseline's own."""

    def ratios(weights: Floats, other: Floats) -> Floats:
        curve, cost = arm.averaged(weights)
        reference, spent = baseline.averaged(other)
        best = reference.max(axis=1)
        return _over(crossing(curve, cost, best), crossing(reference, spent, best))

    return _interval(ratios, arm, baseline, rng)


def cost_to_common_best(arm: Runs, baseline: Runs, rng: np.random.Generator) -> Ratio:
    """Cost at which an arm reaches the highest accuracy that both reach, over the baseline's."""

    def ratios(weights: Floats, other: Floats) -> Floats:
        pair = arm.averaged(weights), baseline.averaged(other)
        best = _common_best(*pair)
        spent = [crossing(*curves, best) for curves in pair]
        return _over(spent[0], spent[1])

    return _interval(ratios, arm, baseline, rng)


def cost_to_own_best(arm: Runs, baseline: Runs, rng: np.random.Generator) -> Ratio:
    """Cost at which an arm is best, over that at which the baseline is: the paper's ΔT is this in
    seconds, less one. NaN of an arm that is best before training."""

    def ratios(weights: Floats, other: Floats) -> Floats:
        spent = []
        for runs, share in ((arm, weights), (baseline, other)):
            curve, cost = runs.averaged(share)
            spent.append(crossing(curve, cost, curve.max(axis=1)))
        return _over(np.where(spent[0] > 0, spent[0], np.nan), spent[1])

    return _interval(ratios, arm, baseline, rng)


def _over(cost: Floats, baseline: Floats) -> Floats:
    """Costs as shares; NaN of a baseline that is best before it has cost anything."""
    return np.divide(cost, baseline, out=np.full_like(cost, np.nan), where=baseline > 0)


def _interval(
    ratios: Callable[[Floats, Floats], Floats], arm: Runs, baseline: Runs, rng: np.random.Generator
) -> Ratio:
    equal = [np.full((1, len(runs.seeds)), 1 / len(runs.seeds)) for runs in (arm, baseline)]
    value = float(ratios(*equal)[0])
    if min(len(arm.seeds), len(baseline.seeds)) < 2 or math.isnan(value):
        return Ratio(value, math.nan, math.nan)
    drawn = ratios(*_resampled(arm, baseline, rng))
    low, high = np.nanquantile(drawn, [0.025, 0.975], method="closest_observation")
    return Ratio(value, float(low), float(high))


def _resampled(arm: Runs, baseline: Runs, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Weights of bootstrap samples: runs drawn with replacement, both arms by the same seeds where
    they have the same."""
    ones, others = (
        rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLES) / count
        for count in (len(arm.seeds), len(baseline.seeds))
    )
    return ones, ones if arm.seeds == baseline.seeds else others


def log_speed(arm: Runs, baseline: Runs) -> float:
    """Log cost ratio at the highest accuracy that both arms reach: 0 is equally fast, and the two
    arms exchanged give its negative."""
    return float(_log_speeds(arm.mean, baseline.mean)[0])


def improves(runs: Runs) -> bool:
    """An arm whose averaged curve rises above its accuracy before training."""
    curve = runs.mean[0]
    return bool(curve.max() > curve[0, 0] + 1e-12)


def _common_best(arm: tuple[Floats, Floats], baseline: tuple[Floats, Floats]) -> Floats:
    return np.asarray(np.minimum(arm[0].max(axis=1), baseline[0].max(axis=1)))


def _log_speeds(arm: tuple[Floats, Floats], baseline: tuple[Floats, Floats]) -> Floats:
    best = _common_best(arm, baseline)
    spent = [np.maximum(crossing(*curves, best), 1e-9) for curves in (arm, baseline)]
    return np.asarray(np.log(spent[0]) - np.log(spent[1]))


def p_value(arm: Runs, baseline: Runs, rng: np.random.Generator) -> float:
    """Two-sided permutation test of `log_speed`: the share of relabellings of all runs in which the
    arms differ by at least as much. Exact up to 13 runs, drawn at random beyond."""
    count, whole = len(arm.seeds), len(arm.seeds) + len(baseline.seeds)
    pooled = Runs(
        np.concatenate([arm.accuracy, baseline.accuracy]),
        np.concatenate([arm.cost, baseline.cost]),
        arm.seeds + baseline.seeds,
    )
    if math.comb(whole, count) <= RESAMPLES:
        picks = np.array(list(itertools.combinations(range(whole), count)))
    else:
        drawn = rng.permuted(np.tile(np.arange(whole), (RESAMPLES - 1, 1)), axis=1)[:, :count]
        picks = np.concatenate([[np.arange(count)], drawn])
    members = np.zeros((len(picks), whole))
    np.put_along_axis(members, picks, 1.0, axis=1)
    ones = pooled.averaged(members / count)
    others = pooled.averaged((1 - members) / (whole - count))
    seen = abs(log_speed(arm, baseline))
    return float(np.mean(np.abs(_log_speeds(ones, others)) >= seen - 1e-9))


def least_p(arm: Runs, baseline: Runs) -> float:
    """The smallest p that this many runs can have: a relabelling and its mirror image."""
    count, whole = len(arm.seeds), len(arm.seeds) + len(baseline.seeds)
    return min(1.0, (2 if 2 * count == whole else 1) / math.comb(whole, count))


def seeds_to_settle(arm: Runs, baseline: Runs, rng: np.random.Generator) -> int | None:
    """Seeds of each arm that would show the difference seen, if it is the true one, with four
    chances in five: more than there are; None where that is more than anyone runs."""
    effect, runs = abs(log_speed(arm, baseline)), min(len(arm.seeds), len(baseline.seeds))
    more = max(len(arm.seeds), len(baseline.seeds)) + 1
    if runs < 2 or not effect:
        return None
    ones, others = _resampled(arm, baseline, rng)
    drawn = _log_speeds(arm.averaged(ones), baseline.averaged(others))
    # a bootstrap of n runs has (n - 1) / n of their variance
    error = float(drawn.std()) * math.sqrt(runs / (runs - 1))
    needed = max(FEWEST_SEEDS, more, math.ceil(runs * (POWER * error / effect) ** 2))
    return needed if needed <= MOST_SEEDS else None
