"""The survey's prediction of METIS's rollouts beside what was seen, for every training set.

Each is predicted from the others, by its share of informative groups in the first ten steps of
uniform sampling.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import replication_tables
import training_tables

from metis.comparisons.measures import MeasuredVariant, find, measure
from metis.comparisons.significance import BootstrapInterval, cost_to_common_best
from metis.surveys.measured import GAINS
from metis.surveys.prediction import Prediction, line
from metis.text import markdown_table

FIRST = 10
TWO = "two validations"
INCOMPLETE = "incomplete"


class Seen(NamedTuple):
    """A training set: METIS and uniform sampling there, or why no cost can be read."""

    name: str
    metis: MeasuredVariant
    uniform: MeasuredVariant
    unread: str = ""

    @property
    def informative(self) -> float:
        """The share of informative groups in the first steps of uniform sampling."""
        records = self.uniform.records
        return float(np.mean([r.series("batch/informative").y[:FIRST] for r in records]))

    def cost(self, axis: str) -> BootstrapInterval:
        """To the highest accuracy that both reach, as a ratio."""
        rng = np.random.default_rng(0)
        return cost_to_common_best(self.metis.runs(axis), self.uniform.runs(axis), rng)


def seen(evidence: Path) -> Iterator[Seen]:
    """Every training set on which METIS and uniform sampling were trained and validated: those
    that the prediction is from, in its order, and then the others."""
    for share in (0, 50, 80, 90, 97):
        folder = evidence / f"when-it-pays/hopeless-{share}"
        yield Seen(f"additions, {share}% all-fail", *_pair(folder, range(3)))
    yield Seen("additions, 90% all-fail, all levels", *_pair(evidence / "hopeless-90", range(6)))
    yield Seen("additions, graded", *_pair(evidence / "levels-2-to-10", range(3)))
    for name, said in {"math": "MATH", "dapo-hard": "DAPO-Math-17k, harder part"}.items():
        runs = training_tables.all_runs(evidence / "judge-in-training" / name)
        yield Seen(said, runs["readout"], runs["uniform"])
    folder = evidence / "arithmetic-smollm2-h200"
    alone = [measure(name, {0: folder / name}) for name in ("metis", "uniform")]
    yield Seen("additions, levels 1 to 5", *alone, unread=TWO)
    for pool, said in replication_tables.POOLS.items():
        runs = replication_tables.variants(evidence / "replication/additions" / pool)
        yield Seen(f"additions, replication, {said}", *_primary(runs), _missing(runs))


def _pair(folder: Path, seeds: range) -> tuple[MeasuredVariant, MeasuredVariant]:
    runs = find(folder, ["metis", "uniform"], list(seeds))
    return measure("metis", runs["metis"]), measure("uniform", runs["uniform"])


def _primary(runs: Mapping[str, MeasuredVariant]) -> tuple[MeasuredVariant, MeasuredVariant]:
    return runs["direct"], runs["uniform"]


def _missing(runs: Mapping[str, MeasuredVariant]) -> str:
    complete = all(len(each.seeds) == len(replication_tables.SEEDS) for each in runs.values())
    return "" if complete else INCOMPLETE


def table(evidence: Path) -> str:
    """A row for each training set."""
    heads = ["training set", "informative at first", "predicted from the others", "seen"]
    rows = [[*heads, "n", "within"]]
    for each in seen(evidence):
        others = [gain for gain in GAINS if gain.name != each.name]
        expected = line(each.informative, others)
        rows.append([each.name, f"{each.informative:.1%}", _written(expected)])
        if each.unread:
            rows[-1] += [each.unread, "", ""]
            continue
        ratio = each.cost("rollouts")
        inside = expected.low <= ratio.value <= expected.high
        n = f"{len(each.metis.seeds)} v {len(each.uniform.seeds)}"
        rows[-1] += [_written(Prediction(*ratio)), n, "yes" if inside else "no"]
    return markdown_table(rows)


def _written(ratio: Prediction) -> str:
    return f"{ratio.rollouts:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
