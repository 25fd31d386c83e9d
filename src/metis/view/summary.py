"""What happened in a finished run, in a few lines."""

import math
from pathlib import Path

import numpy as np

from metis import runlog
from metis.report.curves import Recorded, read
from metis.report.tables import duration


def summary(folder: Path) -> list[str]:
    """Whether it learnt, what it learnt from, and where the time went."""
    run = read(folder)
    return [_learnt(run), _spent(run), _took(run), f"run folder: {folder}"]


def _learnt(run: Recorded) -> str:
    tests = run.evaluations
    first, last, best = tests[0], tests[-1], max(tests, key=lambda test: test.accuracy)
    rise, error = paired(run.folder)
    line = f"held-out accuracy {first.accuracy:.3f} → {last.accuracy:.3f}"
    line += f" ({rise:+.3f}{'' if error is None else f' ± {error:.3f}'}) in {run.steps:,} steps"
    if best.step == last.step or best.accuracy <= first.accuracy:
        return line
    line += f"; best {best.accuracy:.3f} at step {best.step:,}"
    after = "" if best.elapsed is None else f", after {duration(best.elapsed, run.simulated)}"
    return line + after


def paired(folder: Path) -> tuple[float, float | None]:
    """The rise from the first test to the last, prompt by prompt, and its standard error."""
    tests: dict[int, dict[str, float]] = {}
    for row in runlog.read(folder, "evals"):
        tests.setdefault(row["step"], {})[row["prompt"]] = row["reward"]
    before, after = tests[min(tests)], tests[max(tests)]
    rises = np.array([after[prompt] - before[prompt] for prompt in before])
    error = float(rises.std(ddof=1)) / math.sqrt(len(rises)) if len(rises) > 1 else None
    return float(rises.mean()), error


def _spent(run: Recorded) -> str:
    line = f"{run.rollouts or 0:,.0f} rollouts"
    if discarded := sum(run.series("select/discarded").y):
        line += f", {discarded:,.0f} discarded"
    if run.informative is None:
        return f"{line}; none was trained on"
    return f"{line}; {run.informative:.0%} of groups trained on were informative"


def _took(run: Recorded) -> str:
    time = duration(run.elapsed, run.simulated)
    if run.judge_share is not None:
        chosen = run.series("select/guarded").y.count(0.0)
        share = f"judging took {run.judge_share:.1%} of {time}"
        return f"{share}; the judge selected in {chosen:,} of {run.steps:,} steps"
    parts = [f"{seconds / run.elapsed:.0%} {name}" for name, seconds in run.phases.items()]
    return f"{time} of training: {', '.join(parts)}" if parts else f"{time} of training"
