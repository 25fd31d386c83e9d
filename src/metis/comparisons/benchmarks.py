"""Evaluations of a comparison's runs: `metis compare --suite` gives each to `metis eval` once it is
trained. They are in `evals/VARIANT-SEED` of the comparison's folder.
"""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from metis.comparisons.plan import Suite
from metis.config import Config
from metis.errors import Damaged, MetisError
from metis.evals.command import benchmark_sets
from metis.run.folder import log_rows
from metis.run.recorded import read_document
from metis.tasks.benchmarks.catalogue import OWN
from metis.tasks.benchmarks.scoring import FAITHFUL


class Evaluated(NamedTuple):
    """The evaluation of a run: its metric, titles of benchmarks, and the score of each problem."""

    metric: str
    titles: Mapping[str, str]
    scores: Mapping[tuple[str, str], float]

    def of(self, benchmark: str) -> float:
        """The accuracy on a benchmark."""
        return float(np.mean([score for key, score in self.scores.items() if key[0] == benchmark]))

    @property
    def average(self) -> float:
        """The mean over benchmarks, each with the same weight."""
        return float(np.mean([self.of(benchmark) for benchmark in self.titles]))


def folder(out: Path, run: str) -> Path:
    """The evaluation of a run."""
    return out / "evals" / run


def command(suite: Suite, out: Path, run: str) -> list[str]:
    """The command line that evaluates a run, after `metis`."""
    return ["eval", str(out / run), *suite.options, "--out", str(folder(out, run))]


def forget(out: Path, run: str) -> None:
    """Delete the evaluation of a run that is trained again."""
    shutil.rmtree(folder(out, run), ignore_errors=True)


def finished(out: Path, run: str) -> bool:
    """True where a run has the results of its evaluation."""
    return (folder(out, run) / "results.json").exists()


def require_suite(suite: Suite, configs: Mapping[str, Config]) -> None:
    """Refuse benchmarks that are not there, and runs that leave no model, before any training."""
    for name, settings in configs.items():
        if settings.engine_name == "simulated":
            raise MetisError(
                f"--suite: variant {name!r} has engine=simulated, which trains no model to "
                "evaluate; use engine=local"
            )
        benchmark_sets([word for word in suite.names if word != OWN], settings.resolved["task"])


def read(out: Path, runs: Iterable[str]) -> tuple[dict[str, Evaluated], dict[str, str]]:
    """The evaluations of runs, and why others have none."""
    found, missing = {}, {}
    for run in runs:
        try:
            found[run] = _read(folder(out, run))
        except FileNotFoundError:
            missing[run] = "not evaluated"
        except Damaged as error:
            missing[run] = f"not evaluated: {error}"
    return found, missing


def _read(where: Path) -> Evaluated:
    results = read_document(where / "results.json")
    try:
        titles = {name: str(each["title"]) for name, each in results["benchmarks"].items()}
        scores = {
            (str(row["benchmark"]), str(row["problem"])): float(
                np.mean([answer["scores"][FAITHFUL] for answer in row["answers"]])
            )
            for row in log_rows(where, "answers")
        }
        if titles.keys() != {benchmark for benchmark, _ in scores}:
            raise ValueError
        return Evaluated(str(results["metric"]), titles, scores)
    except (KeyError, TypeError, AttributeError, ValueError):
        said = f"{str(where)!r} is damaged: delete it, and give the command again"
        raise Damaged(said, where, "results.json") from None
