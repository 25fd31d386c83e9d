"""Curricula that act before the rollouts: the runs, their curves, the table.

python evidence/before_rollouts.py train DIR [additions] [key=value ...]
python evidence/before_rollouts.py collect DIR [additions]
python evidence/before_rollouts.py table [additions]

In the simulation, or on additions; more settings are for all runs, such as another model.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from metis.comparisons.ending import look
from metis.comparisons.measures import AXES, find, measure
from metis.comparisons.significance import BootstrapInterval, Runs, cost_to_best
from metis.curricula import CURRICULA
from metis.curricula.cards import curriculum_card
from metis.text import markdown_table

HERE = Path(__file__).parent
NAMES = [
    name for name, kind in CURRICULA.items() if curriculum_card(kind).acts == "before rollouts"
]
VARIANTS = {
    "knapsack-readout": "curriculum=knapsack,curriculum.judge=readout",
    "vip-history": "curriculum=vip,curriculum.judge=history",
    "metis-filtered": "curriculum=metis,curriculum.filter=dapo",
    "adarft-small-steps": "curriculum=adarft,curriculum.eta=0.1",
    "dapo": "curriculum=dapo",
}


@dataclass(frozen=True)
class World:
    """What all runs of a comparison share, and settings that some variants have besides."""

    curves: Path
    settings: tuple[str, ...]
    shorter: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def command(self, out: Path, more: Sequence[str] = ()) -> list[str]:
        """The words of `metis compare`."""
        words = ["compare", *self.settings, *more, "--out", str(out), "--discard"]
        words += ["--curricula", ",".join(NAMES), "--seeds", ",".join(map(str, SEEDS))]
        for name, settings in VARIANTS.items():
            words += ["--variant", ",".join([f"{name}:{settings}", *self.shorter.get(name, ())])]
        return words


WORLDS = {
    "simulation": World(
        HERE / "before-rollouts/runs.jsonl",
        (
            *("engine=simulated", "engine.prompts=512", "batch=32", "group=8", "steps=150"),
            *("evaluate=5", "transcripts=none"),
        ),
    ),
    "additions": World(
        HERE / "before-rollouts/additions.jsonl",
        (
            str(HERE.parent / "recipes/arithmetic/hopeless-90.toml"),
            *("task.prompts=1024", "transcripts=none"),
        ),
        {"dapo": ("steps=40",), "metis-filtered": ("steps=80",)},
    ),
}
SEEDS = [0, 1, 2]
COSTS = AXES[:4]


def train(world: World, out: Path, more: Sequence[str]) -> None:
    """Train every variant; the same command goes on where it was stopped."""
    subprocess.run([sys.executable, "-m", "metis.cli", *world.command(out, more)], check=True)


def collect(world: World, out: Path) -> None:
    """The curves of all finished runs, one row a run."""
    rows = []
    for name, folders in find(out, [*NAMES, *VARIANTS], SEEDS).items():
        finished = {seed: folder for seed, folder in folders.items() if look(folder)[0]}
        if not finished:
            continue
        one = measure(name, finished)
        for place, seed in enumerate(one.seeds):
            spent = {axis: one.spent[axis][place].astype(int).tolist() for axis in COSTS}
            accuracy = [round(value, 5) for value in one.accuracy[place].tolist()]
            rows.append({"variant": name, "seed": seed, "accuracy": accuracy, **spent})
    world.curves.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


def table(world: str = "simulation") -> str:
    """Cost to the best accuracy of uniform sampling, over its own; cheapest in total tokens."""
    runs: dict[str, list[dict[str, list[float]]]] = {}
    for line in WORLDS[world].curves.read_text("utf-8").splitlines():
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
        said = f"{last.mean():.3f}"
        if len(last) > 1:
            said += f" ± {last.std(ddof=1) / np.sqrt(len(last)):.3f}"
        rows.append([f"`{name}`", *map(_ratio, found[name]), said])
    return markdown_table(rows)


def _ratio(ratio: BootstrapInterval) -> str:
    if not np.isfinite(ratio.value):
        return "not reached"
    if np.isnan(ratio.low):
        return f"{ratio.value:.2f}"
    high = f"{ratio.high:.2f}" if np.isfinite(ratio.high) else "∞"
    return f"{ratio.value:.2f} [{ratio.low:.2f}, {high}]"


def main(verb: str, *words: str) -> None:
    """Does as the command line says."""
    name = next((word for word in words if word in WORLDS), "simulation")
    rest = [word for word in words if word not in WORLDS]
    if verb == "table":
        print(table(name))
    elif verb == "collect":
        collect(WORLDS[name], Path(rest[0]))
    else:
        train(WORLDS[name], Path(rest[0]), rest[1:])


if __name__ == "__main__":
    main(*sys.argv[1:])
