"""Tables of judges in training: what the arms of a comparison chose, and what came of it."""

import gzip
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metis.markdown import markdown_table
from metis.run.statistics import Estimate, mean

ARMS = ("uniform", "probe", "readout")
PARTS = ((1, 10), (11, 20), (21, math.inf))
"""Steps that the judge's skill is averaged over."""


def results(folder: Path) -> str:
    """Every arm: its groups, and mean@4 on MATH-500 at the end, paired with uniform selection's."""
    scores = _scores(folder / "math500.jsonl.gz")
    rows = [["arm", "steps", "informative groups", "mean reward of all groups"]]
    rows[0] += ["mean@4, by seed", "mean@4", "above uniform selection's"]
    for arm, runs in _runs(folder).items():
        steps = [metrics[-1]["step"] for metrics in runs.values()]
        ends = [float(np.mean(list(scores[run].values()))) for run in runs]
        change = _paired(scores, list(runs), list(_runs(folder)["uniform"]))
        rows.append(
            [
                f"`{arm}`",
                ", ".join(f"{step:.0f}" for step in steps),
                f"{_mean(runs, 'batch/informative'):.1%}",
                f"{_mean(runs, 'batch/reward'):.3f}",
                ", ".join(f"{end:.1%}" for end in ends),
                f"{np.mean(ends):.1%}",
                "–" if arm == "uniform" else f"{change.mean:+.1%} ± {change.error:.1%}",
            ]
        )
    return markdown_table(rows)


def skill(folder: Path) -> str:
    """Informative groups over the steps, and how the readout did in them."""
    runs = _runs(folder)
    rows = [["steps", *(f"`{arm}`: informative" for arm in runs)]]
    rows[0] += ["readout: chosen by the judge", "held-out correlation", "the probe's"]
    for first, last in PARTS:
        within = {arm: _between(each, first, last) for arm, each in runs.items()}
        chosen = 1 - _mean(within["readout"], "select/explored") / _mean(
            within["readout"], "batch/groups"
        )
        rows.append(
            [
                f"{first} to {last}" if math.isfinite(last) else f"{first} to the end",
                *(f"{_mean(each, 'batch/informative'):.1%}" for each in within.values()),
                f"{chosen:.0%}",
                f"{_mean(within['readout'], 'select/held_out_pearson'):.2f}",
                f"{_mean(within['probe'], 'select/held_out_pearson'):.2f}",
            ]
        )
    return markdown_table(rows)


Steps = list[dict[str, float]]
Runs = dict[str, Steps]


def _runs(folder: Path) -> dict[str, Runs]:
    """The metrics of every arm's runs, from the first step on."""
    found: dict[str, Runs] = {arm: {} for arm in ARMS}
    for path in sorted(folder.glob("*/metrics.jsonl")):
        match = re.fullmatch(r"(.+)-\d+", path.parent.name)
        if match and match[1] in found:
            lines = path.read_text("utf-8").splitlines()
            found[match[1]][path.parent.name] = [json.loads(line) for line in lines[1:]]
    return found


def _between(runs: Runs, first: float, last: float) -> Runs:
    return {
        name: [row for row in metrics if first <= row["step"] <= last]
        for name, metrics in runs.items()
    }


def _mean(runs: Runs, key: str) -> float:
    return float(np.mean([row[key] for steps in runs.values() for row in steps if key in row]))


def _scores(path: Path) -> dict[str, dict[str, float]]:
    """The mean score of each problem, by run."""
    scores: dict[str, dict[str, float]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            scores.setdefault(row["run"], {})[row["problem"]] = float(np.mean(row["scores"]))
    return scores


def _paired(
    scores: Mapping[str, Mapping[str, float]], runs: list[str], baseline: list[str]
) -> Estimate:
    """The mean difference over problems, each averaged over seeds, and its standard error."""
    problems = sorted(scores[runs[0]])

    def averaged(names: list[str]) -> NDArray[np.float64]:
        return np.mean([[scores[name][problem] for problem in problems] for name in names], axis=0)

    return mean((averaged(runs) - averaged(baseline)).tolist())
