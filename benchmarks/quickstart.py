"""Whether the quickstart learns: held-out rewards before and after, pair by pair, seed by seed.

    python benchmarks/quickstart.py [--seeds 0 1 2] [--out runs/quickstart-seeds]

Trains as `make quickstart` does, once a seed, and compares the first and the last test on the same
held-out prompts. Prints for each seed the accuracies, the rise in standard errors of its paired
difference, and the seconds of training; fails where the rise is below two standard errors. A seed
that is done already is read, not trained again.
"""

import argparse
import math
import subprocess
import sys
from pathlib import Path

import numpy as np

from metis import runlog

REQUIRED = 2.0
"""Standard errors by which every seed has to rise."""


def paired(folder: Path) -> tuple[float, float, float]:
    """Accuracy before and after, and the rise in standard errors."""
    tests: dict[int, dict[str, float]] = {}
    for row in runlog.read(folder, "evals"):
        tests.setdefault(row["step"], {})[row["prompt"]] = row["reward"]
    before, after = tests[min(tests)], tests[max(tests)]
    rises = np.array([after[prompt] - reward for prompt, reward in before.items()])
    error = float(rises.std(ddof=1)) / math.sqrt(len(rises))
    first, last = (float(np.mean(list(test.values()))) for test in (before, after))
    return first, last, float(rises.mean()) / error if error else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("runs/quickstart-seeds"))
    chosen = parser.parse_args()
    rises = []
    for seed in chosen.seeds:
        folder = chosen.out / f"seed-{seed}"
        command = ["-m", "metis.cli", "train", f"seed={seed}", "--out", str(folder)]
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
        before, after, rise = paired(folder)
        seconds = runlog.read(folder, "timings")[-1]["elapsed"]
        print(
            f"seed {seed}: {before:.3f} -> {after:.3f}, a rise of {rise:.1f} paired standard "
            f"errors, {seconds:.0f} s of training",
            flush=True,
        )
        rises.append(rise)
    print(f"smallest rise {min(rises):.1f} standard errors, {REQUIRED:g} are required")
    return 0 if min(rises) >= REQUIRED else 1


if __name__ == "__main__":
    sys.exit(main())
