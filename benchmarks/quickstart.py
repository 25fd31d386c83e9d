"""The quickstart learns: held-out rewards before and after, pair by pair, seed by seed.

    python benchmarks/quickstart.py [--seeds 0 1 2] [--out runs/quickstart-seeds]

Trains as `make quickstart` does, once a seed, and compares the first and the last test on the same
held-out prompts. Prints for each seed the accuracies, the rise in standard errors of its paired
difference, and the seconds of training; fails where the rise is below two standard errors. A seed
that is done already is read, not trained again.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from metis.run.recorded import read_run
from metis.view.summary import paired

REQUIRED = 2.0
"""Standard errors by which every seed has to rise."""


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
        run = read_run(folder)
        rise, error = paired(run)
        rises.append(rise / error if error else 0.0)
        before, after = run.evaluations[0].accuracy, run.evaluations[-1].accuracy
        print(
            f"seed {seed}: {before:.3f} -> {after:.3f}, a rise of {rises[-1]:.1f} paired standard "
            f"errors, {run.elapsed:.0f} s of training",
            flush=True,
        )
    print(f"smallest rise {min(rises):.1f} standard errors, {REQUIRED:g} are required")
    return 0 if min(rises) >= REQUIRED else 1


if __name__ == "__main__":
    sys.exit(main())
