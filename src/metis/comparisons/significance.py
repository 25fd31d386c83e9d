"""Permutation tests and bootstrap intervals of the differences between variants.

Runs, not tests, are what is resampled: the tests of a run are not independent. Runs are never
paired, those of one seed neither: it fixes the order of prompts and the first draws, but from the
first update on two variants have other weights, other batches and other rollouts.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metis.comparisons.crossing import CurvePair, Curves, Floats, alike, raw

RESAMPLES = 10_000
BATCH = 1_000
"""Resamples of problems at a time, for the memory that they take."""
LEVEL = 0.05
"""Chance of claiming a difference where there is none."""


class Runs(NamedTuple):
    """Accuracies and costs of the runs of a variant, one row a run, one column a test."""

    accuracy: Floats
    cost: Floats

    def averaged(self, weights: Floats) -> Curves:
        """The raw curve under each row of weights over the runs."""
        return raw(weights @ self.accuracy, weights @ self.cost)


class BootstrapInterval(NamedTuple):
    """A number with its 95% bootstrap interval, which is NaN where a variant has one run.

    A cost as a share of the baseline's is infinite where the accuracy is never reached, and NaN
    where the baseline did not improve.
    """

    value: float
    low: float
    high: float


def observed(variant: Runs, baseline: Runs) -> CurvePair:
    """The curves of two variants, each averaged over its runs."""
    return alike(
        *(raw(*(part.mean(axis=0)[None] for part in runs)) for runs in (variant, baseline))
    )


def cost_to_best(variant: Runs, baseline: Runs, rng: np.random.Generator) -> BootstrapInterval:
    """Cost at which a variant reaches the baseline's best accuracy, over the baseline's own."""
    return _ratio(lambda pair: pair.costs_of(pair.baseline.best), variant, baseline, rng)


def cost_to_common_best(
    variant: Runs, baseline: Runs, rng: np.random.Generator
) -> BootstrapInterval:
    """Cost at which a variant reaches the highest accuracy that both reach, over the baseline's."""
    return _ratio(lambda pair: pair.costs_of(pair.common_best), variant, baseline, rng)


def cost_to_own_best(variant: Runs, baseline: Runs, rng: np.random.Generator) -> BootstrapInterval:
    """Cost at which a variant is best, over that at which the baseline is: the paper's ΔT is this
    in seconds, less one. NaN of a variant that is best before training."""

    def costs(pair: CurvePair) -> tuple[Floats, Floats]:
        mine, its = (curves.cost_of(curves.best) for curves in (pair.variant, pair.baseline))
        return np.where(mine > 0, mine, np.nan), its

    return _ratio(costs, variant, baseline, rng)


def _ratio(
    costs: Callable[[CurvePair], tuple[Floats, Floats]],
    variant: Runs,
    baseline: Runs,
    rng: np.random.Generator,
) -> BootstrapInterval:
    def ratios(pair: CurvePair) -> Floats:
        mine, its = costs(pair)
        return np.divide(mine, its, out=np.full_like(mine, np.nan), where=its > 0)

    value = float(ratios(observed(variant, baseline))[0])
    if min(len(variant.accuracy), len(baseline.accuracy)) < 2 or math.isnan(value):
        return BootstrapInterval(value, math.nan, math.nan)
    mine, its = _resampled_apart(len(variant.accuracy), len(baseline.accuracy), rng)
    return _interval(value, ratios(alike(variant.averaged(mine), baseline.averaged(its))))


def difference(
    variant: Floats, baseline: Floats, rng: np.random.Generator, sets: Sequence[str] = ("",)
) -> BootstrapInterval:
    """The difference of two mean accuracies, one row a run and one column a problem.

    Problems are those that all runs are tested on. They are resampled together with the runs, each
    within its set; sets have equal weights. Of one column, runs alone are resampled. The two
    variants exchanged give the negative.
    """
    groups = [np.flatnonzero(np.asarray(sets) == name) for name in dict.fromkeys(sets)]
    apart = variant.mean(axis=0) - baseline.mean(axis=0)
    value = float(np.mean([apart[columns].mean() for columns in groups]))
    counts = len(variant), len(baseline)
    if min(counts) < 2:
        return BootstrapInterval(value, math.nan, math.nan)
    if len(apart) == 1:
        mine, its = _resampled_apart(*counts, rng)
        return _interval(value, (mine @ variant - its @ baseline).ravel().round(12))
    batches = []
    for _ in range(RESAMPLES // BATCH):
        mine, its = _drawn_apart(*counts, rng, 2 * BATCH)
        changes = (mine @ variant - its @ baseline).reshape(2, BATCH, -1)
        drawn = [
            np.einsum("srp,rp->sr", changes[..., columns], _resampled(len(columns), rng, BATCH))
            for columns in groups
        ]
        batches.append(np.mean(drawn, axis=0).ravel())
    return _interval(value, np.concatenate(batches).round(12))


def _resampled_apart(count: int, other: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Weights of bootstrap samples of two variants' runs: all there are, or many drawn at random.
    They are the same samples when the variants are exchanged."""
    if count**count * other**other > RESAMPLES:
        return _drawn_apart(count, other, rng, RESAMPLES)
    ones, others = (
        _weights(np.array(list(itertools.product(range(size), repeat=size))))
        for size in (count, other)
    )
    return np.repeat(ones, len(others), axis=0), np.tile(others, (len(ones), 1))


def _drawn_apart(
    count: int, other: int, rng: np.random.Generator, rows: int
) -> tuple[Floats, Floats]:
    """Weights of samples drawn at random; of as many runs each, the second half of them is the
    first half exchanged."""
    if count != other:
        drawn = {size: _resampled(size, rng, rows) for size in sorted((count, other))}
        return drawn[count], drawn[other]
    either = _resampled(count, rng, rows)
    return either, np.roll(either, rows // 2, axis=0)


def _resampled(count: int, rng: np.random.Generator, rows: int) -> Floats:
    """Weights of bootstrap samples, one a row: so many things drawn with replacement."""
    return _weights(rng.integers(count, size=(rows, count)))


def _weights(drawn: NDArray[np.int_]) -> Floats:
    """The share of each thing in samples, one a row."""
    rows, count = drawn.shape
    places = drawn + count * np.arange(rows)[:, None]
    counts = np.bincount(places.ravel(), minlength=rows * count).reshape(rows, count)
    return np.asarray(counts / count, dtype=np.float64)


def _interval(value: float, drawn: Floats) -> BootstrapInterval:
    """With as many samples below it as above it."""
    low, high = (
        float(sign * np.nanquantile(sign * drawn, 0.025, method="inverted_cdf")) for sign in (1, -1)
    )
    return BootstrapInterval(value, low + 0.0, high + 0.0)  # no -0.0


def log_speed(variant: Runs, baseline: Runs) -> float:
    """Log cost ratio at the highest accuracy that both variants reach: 0 is equally fast, and the
    two variants exchanged give its negative."""
    return float(_log_speeds(observed(variant, baseline))[0])


def _log_speeds(pair: CurvePair) -> Floats:
    mine, its = (np.log(np.maximum(costs, 1e-9)) for costs in pair.costs_of(pair.common_best))
    return np.asarray(mine - its)


def p_value(variant: Runs, baseline: Runs, rng: np.random.Generator) -> float:
    """Two-sided permutation test of `log_speed`: the share of relabellings of all runs in which the
    variants differ by at least as much. Exact up to 15 runs, drawn at random beyond."""
    both = zip(variant, baseline, strict=True)
    pooled = Runs(*(np.concatenate(parts) for parts in both))
    members = _relabelled(len(variant.accuracy), len(baseline.accuracy), rng)
    speeds = _log_speeds(alike(*(pooled.averaged(weights) for weights in members)))
    return _as_far(speeds, log_speed(variant, baseline))


def p_of_difference(
    variant: Sequence[float], baseline: Sequence[float], rng: np.random.Generator
) -> float:
    """Two-sided permutation test of the difference of two means, one number per run."""
    pooled = np.array([*variant, *baseline])
    ones, others = _relabelled(len(variant), len(baseline), rng)
    return _as_far(ones @ pooled - others @ pooled, float(np.mean(variant) - np.mean(baseline)))


def least_p(count: int, other: int) -> float:
    """The smallest p that so many runs against so many can have: that of one relabelling, and of
    its mirror image where it has one."""
    if not _exact(count, other):
        return 1 / RESAMPLES
    return min(1.0, (2 if count == other else 1) / math.comb(count + other, count))


def _exact(count: int, other: int) -> bool:
    return math.comb(count + other, count) <= RESAMPLES


def _relabelled(count: int, other: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Weights over all runs of two variants of these sizes, each relabelling a row: all there are,
    or the one that is seen and many drawn at random."""
    whole = count + other
    if _exact(count, other):
        picks = np.array(list(itertools.combinations(range(whole), count)))
    else:
        drawn = rng.permuted(np.tile(np.arange(whole), (RESAMPLES - 1, 1)), axis=1)[:, :count]
        picks = np.concatenate([[np.arange(count)], drawn])
    members = np.zeros((len(picks), whole))
    np.put_along_axis(members, picks, 1.0, axis=1)
    return members / count, (1 - members) / other


def _as_far(drawn: Floats, seen: float) -> float:
    """The share of numbers with at least this absolute value."""
    return float(np.mean(np.abs(drawn) >= abs(seen) - 1e-9))
