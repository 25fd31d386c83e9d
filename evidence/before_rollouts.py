"""Curricula that act before the rollouts, in the simulation: the runs, their curves, the table.

python evidence/before_rollouts.py train DIR
python evidence/before_rollouts.py collect DIR
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from metis.comparisons.measures import AXES, find, measure
from metis.comparisons.significance import BootstrapInterval, Runs, cost_to_best
from metis.curricula import CURRICULA
from metis.curricula.cards import curriculum_card
from metis.text import markdown_table

CURVES = Path(__file__).with_name("before-rollouts") / "runs.jsonl"
SETTINGS = (
    *("engine=simulated", "engine.prompts=512", "batch=32", "group=8", "steps=150"),
    *("evaluate=5", "transcripts=none"),
)
NAMES = [
    name for name, kind in CURRICULA.items() if curriculum_card(kind).acts == "before rollouts"
]
VARIANTS = {
    "knapsack-readout": "curriculum=knapsack,curriculum.judge=readout",
    "vip-history": "curriculum=vip,curriculum.judge=history",
    "metis-filtered": "curriculum=metis,curriculum.filter=dapo",
    "adarft-small-steps": "curriculum=adarft,curriculum.eta=0.1",
}
SEEDS = [0, 1, 2]
COSTS = AXES[:4]


def train(out: Path) -> None:
    """Train every variant; the same command goes on where it was stopped."""
    command = [sys.executable, "-m", "metis.cli", "compare", *SETTINGS, "--out", str(out)]
    command += ["--curricula", ",".join([*NAMES, "dapo"]), "--seeds", ",".join(map(str, SEEDS))]
    for name, settings in VARIANTS.items():
        command += ["--variant", f"{name}:{settings}"]
    subprocess.run([*command, "--discard"], check=True)


def collect(out: Path) -> None:
    """The curves of all runs, one row a run."""
    names = [*NAMES, *VARIANTS, "dapo"]
    rows = []
    for name, folders in find(out, names, SEEDS).items():
        one = measure(name, folders)
        for place, seed in enumerate(one.seeds):
            spent = {axis: one.spent[axis][place].astype(int).tolist() for axis in COSTS}
            accuracy = [round(value, 5) for value in one.accuracy[place].tolist()]
            rows.append({"variant": name, "seed": seed, "accuracy": accuracy, **spent})
    CURVES.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


def table() -> str:
    """Cost to the best accuracy of uniform sampling, over its own; cheapest in total tokens."""
    runs: dict[str, list[dict[str, list[float]]]] = {}
    for line in CURVES.read_text("utf-8").splitlines():
        row = json.loads(line)
        runs.setdefault(row["variant"], []).append(row)

    def of(name: str, axis: str) -> Runs:
        accuracy = np.array([row["accuracy"] for row in runs[name]])
        return Runs(accuracy, np.array([row[axis] for row in runs[name]], dtype=np.float64))

    def costs(name: str) -> list[BootstrapInterval]:
        rng = np.random.default_rng(0)
        return [cost_to_best(of(name, axis), of("uniform", axis), rng) for axis in COSTS]

    found = {name: costs(name) for name in runs}
    ordered = sorted(found, key=lambda name: (np.nan_to_num(found[name][-1].value, nan=9e9), name))
    rows = [["variant", *COSTS, "last validation"]]
    for name in ordered:
        last = np.array([row["accuracy"][-1] for row in runs[name]])
        said = f"{last.mean():.3f} ± {last.std(ddof=1) / np.sqrt(len(last)):.3f}"
        rows.append([f"`{name}`", *map(_ratio, found[name]), said])
    return markdown_table(rows)


def _ratio(ratio: BootstrapInterval) -> str:
    if not np.isfinite(ratio.value):
        return "not reached"
    high = f"{ratio.high:.2f}" if np.isfinite(ratio.high) else "∞"
    return f"{ratio.value:.2f} [{ratio.low:.2f}, {high}]"


if __name__ == "__main__":
    {"train": train, "collect": collect}[sys.argv[1]](Path(sys.argv[2]))
