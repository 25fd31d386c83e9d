"""The quickstart learns: held-out rewards before and after, pair by pair, seed by seed.

    python benchmarks/quickstart.py [--seeds 0 1 2] [--out runs/quickstart-seeds]

Trains as `make quickstart` does, once a seed, and compares the first and the last test on the same
held-out prompts. Prints for each seed the accuracies, the rise in standard errors of its paired
difference, the seconds of training (the tests, loading and checkpoints are not counted), and the
shares of judging (of the seconds), of truncated rollouts, and of steps in which the judge selected.
Fails where one misses its bar; seconds are not among the bars. A seed that is done already is read,
not trained again.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from metis.diagnosis.facts import paired
from metis.run.recorded import Recorded, read_run

RISE = 0.25
"""Least rise in accuracy of every seed."""

ERRORS = 2.0
"""Least rise of every seed, in standard errors."""

JUDGING = 0.15
"""Most of the seconds of training that asking a judge, or reading for it, may take."""

TRUNCATED = 0.1
"""Most rollouts that may be truncated, as a share."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("runs/quickstart-seeds"))
    chosen = parser.parse_args()
    missed = 0
    for seed in chosen.seeds:
        folder = chosen.out / f"seed-{seed}"
        command = ["-m", "metis.cli", "train", f"seed={seed}", "--out", str(folder)]
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
        line, held = measured(read_run(folder))
        missed += not held
        print(f"seed {seed}: {line}", flush=True)
    print(
        f"required of each: a rise of {RISE:g} and of {ERRORS:g} standard errors, judging at most "
        f"{JUDGING:.0%}, truncated below {TRUNCATED:.0%}, the judge selects in some steps; "
        f"{missed} missed"
    )
    return 1 if missed else 0


def measured(run: Recorded) -> tuple[str, bool]:
    """What a run reached, and whether every bar holds."""
    rise, error = paired(run)
    before, after = run.evaluations[0].accuracy, run.evaluations[-1].accuracy
    errors = rise / error if error else 0.0
    judging = sum(run.phases.get(phase, 0.0) for phase in ("judge", "select")) / run.elapsed
    generated, truncated = (sum(run.series(f"rollout/{of}").y) for of in ("generated", "cut_off"))
    trained, selected = len(run.timings), selecting(run)
    line = (
        f"{before:.3f} -> {after:.3f}, a rise of {errors:.1f} paired standard errors, "
        f"{run.elapsed:.0f} s of training, {judging:.0%} of it judging, "
        f"{truncated / generated:.1%} truncated, the judge selected in {selected} of {trained} "
        "steps"
    )
    held = rise >= RISE and errors >= ERRORS and judging <= JUDGING
    return line, held and truncated < TRUNCATED * generated and selected > 0


def selecting(run: Recorded) -> int:
    """Steps in which a judge was not on trial, and had predictions that differ."""
    trial = dict(zip(*run.series("select/trial"), strict=True))
    spread = dict(zip(*run.series("judge/v_hat_std"), strict=True))
    return sum(on == 0 and spread.get(step, 0.0) > 0 for step, on in trial.items())


if __name__ == "__main__":
    sys.exit(main())
