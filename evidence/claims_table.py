"""What the runs in this folder show: every comparison with uniform sampling, with n, p and the
least p that n can give."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import training_tables

from metis.comparisons.accuracy import above
from metis.comparisons.crossing import Floats
from metis.comparisons.measures import MeasuredVariant, find, measure
from metis.comparisons.significance import (
    LEVEL,
    BootstrapInterval,
    cost_to_best,
    cost_to_common_best,
    difference,
    least_p,
    p_of_difference,
    p_value,
)
from metis.comparisons.verdicts import number
from metis.text import markdown_table

BEST = "to uniform's best"
COMMON = "to the best of both"
MATHEMATICS = {"math": "MATH", "dapo-hard": "DAPO-Math-17k, harder part"}


class Claim(NamedTuple):
    """A comparison with uniform sampling: where, of what, what was found, and how sure it is."""

    pool: str
    compared: str
    found: str
    runs: tuple[int, int]
    p: tuple[float, ...]


def table(evidence: Path) -> str:
    """Every comparison, with what it shows."""
    rows = [["training set", "compared", "found", "n", "p", "least p", "shown"]]
    for claim in (*_additions(evidence), *_mathematics(evidence / "judge-in-training")):
        n, p = " v ".join(map(str, claim.runs)), ", ".join(map(number, claim.p))
        shown = "yes" if min(claim.p) <= LEVEL else "no"
        rows.append([*claim[:3], n, p, number(least_p(*claim.runs)), shown])
    return markdown_table(rows)


def _additions(evidence: Path) -> Iterator[Claim]:
    mine, its = _pair(evidence / "hopeless-90", range(6))
    for axis in ("rollouts", "total tokens"):
        ratio = cost_to_best(mine.runs(axis), its.runs(axis), _rng())
        yield _cost(
            "additions, 90% all-fail, all levels", f"`direct`: {axis} {BEST}", ratio, mine, its
        )
    for share in (97, 90, 80, 50, 0):
        mine, its = _pair(evidence / f"when-it-pays/hopeless-{share}", range(3))
        ratio = cost_to_common_best(mine.runs("rollouts"), its.runs("rollouts"), _rng())
        where = f"additions, {share}% all-fail"
        yield _cost(where, f"`direct`: rollouts {COMMON}", ratio, mine, its)
    mine, its = _pair(evidence / "levels-2-to-10", range(3))
    apart, _ = above(mine, its, _rng())
    p = p_of_difference(*(each.accuracy.mean(axis=1).tolist() for each in (mine, its)), _rng())
    found = f"{100 * apart.value:+.1f} points [{100 * apart.low:+.1f}, {100 * apart.high:+.1f}]"
    said = "`direct`: accuracy over 160 steps"
    yield Claim("additions, graded", said, found, (3, 3), (p,))


def _pair(folder: Path, seeds: range) -> tuple[MeasuredVariant, MeasuredVariant]:
    runs = find(folder, ["metis", "uniform"], list(seeds))
    return measure("metis", runs["metis"]), measure("uniform", runs["uniform"])


def _cost(
    pool: str, said: str, ratio: BootstrapInterval, mine: MeasuredVariant, its: MeasuredVariant
) -> Claim:
    axis = said.removeprefix("`direct`: ").partition(" to ")[0]
    p = p_value(mine.runs(axis), its.runs(axis), _rng())
    found = f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
    return Claim(pool, said, found, (len(mine.seeds), len(its.seeds)), (p,))


def _mathematics(folder: Path) -> Iterator[Claim]:
    for name, pool in MATHEMATICS.items():
        runs = training_tables.all_runs(folder / name)
        steps = [step for step in runs["uniform"].steps if step]
        tests = [training_tables.scores_at(folder / name, step) for step in steps]
        said = f"`readout`: greedy accuracy at steps {', '.join(map(str, steps))}"
        yield _points(pool, said, [(test["readout"], test["uniform"]) for test in tests])
        for said, scores in training_tables.at_end(folder / name).items():
            yield _points(pool, f"`readout`: {said} at the end", [scores])


def _points(pool: str, said: str, scores: list[tuple[Floats, Floats]]) -> Claim:
    """Differences of scores by run and problem; with an interval if there is only one."""
    apart = [difference(mine, its, _rng(), [""] * mine.shape[1]) for mine, its in scores]
    found = f"{', '.join(f'{100 * each.value:+.1f}' for each in apart)} points"
    if len(apart) == 1:
        found += f" [{100 * apart[0].low:+.1f}, {100 * apart[0].high:+.1f}]"
    by_run = [(mine.mean(axis=1).tolist(), its.mean(axis=1).tolist()) for mine, its in scores]
    counts = len(by_run[0][0]), len(by_run[0][1])
    return Claim(pool, said, found, counts, tuple(p_of_difference(*b, _rng()) for b in by_run))


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)
