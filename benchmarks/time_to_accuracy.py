"""Steps and tokens in which a curriculum reaches uniform selection's best accuracy, over seeds.

    python benchmarks/time_to_accuracy.py evidence/hopeless-90 metis metis-share-1

A folder holds runs named ARM-SEED, among them uniform-0, uniform-1, ... Accuracy is averaged over
the seeds and over three tests, and interpolated between tests. The step, rollouts, generated and
processed tokens at which an arm reaches the best of uniform selection are printed as ratios to
those at which uniform selection does; then the mean accuracy over the tests that both have, with
the standard error of the paired differences over the seeds.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metis.runlog import read

Floats = NDArray[np.float64]
COSTS = ("steps", "rollouts", "generated tokens", "processed tokens")


@dataclass(frozen=True)
class Curve:
    """Tests of one arm: their steps, every seed's accuracies, and what was spent by then."""

    steps: list[int]
    accuracies: Floats
    spent: dict[str, Floats]

    @property
    def smooth(self) -> Floats:
        """The mean over seeds and over each test with its neighbours."""
        mean = self.accuracies.mean(axis=0)
        return np.array([mean[max(0, i - 1) : i + 2].mean() for i in range(len(mean))])


def spent(row: Mapping[str, float]) -> list[float]:
    """The costs of a run up to a step, in the order of COSTS."""
    processed = sum(v for k, v in row.items() if k.startswith("total/") and "processed" in k)
    tokens = row.get("total/rollout_tokens", 0.0) + row.get("total/judge_tokens", 0.0)
    return [row["step"], row.get("total/rollout_generated", 0.0), tokens, processed]


def curve(folder: Path, arm: str) -> Curve:
    """The seeds of an arm, as far as all of them were tested."""
    runs = sorted(folder.glob(f"{arm}-[0-9]"))
    if not runs:
        raise SystemExit(f"{folder} has no run named {arm}-0")
    tests = [
        {int(r["step"]): r for r in read(run, "metrics") if "eval/accuracy" in r} for run in runs
    ]
    steps = sorted(set.intersection(*(set(test) for test in tests)))
    accuracies = np.array([[test[step]["eval/accuracy"] for step in steps] for test in tests])
    costs = np.array([[spent(test[step]) for step in steps] for test in tests]).mean(axis=0)
    return Curve(steps, accuracies, dict(zip(COSTS, costs.T, strict=True)))


def reached(arm: Curve, accuracy: float) -> dict[str, float] | None:
    """The costs at which an arm's smoothed curve first has an accuracy; None if it never does."""
    smooth = arm.smooth
    above = np.flatnonzero(smooth >= accuracy)
    if not len(above):
        return None
    i = int(above[0])
    if i == 0:
        return {name: float(values[0]) for name, values in arm.spent.items()}
    part = (accuracy - smooth[i - 1]) / (smooth[i] - smooth[i - 1])
    return {name: float(v[i - 1] + part * (v[i] - v[i - 1])) for name, v in arm.spent.items()}


def compare(uniform: Curve, arm: Curve, name: str) -> list[str]:
    """The lines about one arm."""
    best = float(uniform.smooth.max())
    at, mine = reached(uniform, best), reached(arm, best)
    if at is None or mine is None:
        lines = [f"{name}: best {arm.smooth.max():.4f}, never uniform's {best:.4f}"]
    else:
        ratios = ", ".join(f"{mine[cost] / at[cost]:.3f} of the {cost}" for cost in COSTS)
        lines = [f"{name}: uniform's best at step {mine['steps']:.1f}: {ratios}"]
    both = [step for step in uniform.steps if step in arm.steps]
    columns = [[curve.steps.index(step) for step in both] for curve in (uniform, arm)]
    means = [c.accuracies[:, i].mean(axis=1) for c, i in zip((uniform, arm), columns, strict=True)]
    if len(means[0]) == len(means[1]) > 1:
        difference = means[1] - means[0]
        error = difference.std(ddof=1) / np.sqrt(len(difference))
        lines.append(
            f"  mean accuracy over {both[-1]} steps: {means[1].mean():.4f}, uniform "
            f"{means[0].mean():.4f}, difference {difference.mean():+.4f} ± {error:.4f}"
        )
    return lines


def main(arguments: Sequence[str]) -> None:
    if len(arguments) < 2:
        raise SystemExit(__doc__)
    folder, *arms = arguments
    uniform = curve(Path(folder), "uniform")
    at = uniform.steps[int(uniform.smooth.argmax())]
    print(f"uniform: best {uniform.smooth.max():.4f} at step {at}, of {uniform.steps[-1]}")
    for arm in arms:
        print("\n".join(compare(uniform, curve(Path(folder), arm), arm)))


if __name__ == "__main__":
    main(sys.argv[1:])
