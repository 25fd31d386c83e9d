"""A finished run in a few lines."""

import shlex
from pathlib import Path

from metis.report.tables import duration, trusted
from metis.run import notices
from metis.run.notices import logged_failures
from metis.run.recorded import Recorded, read_run
from metis.run.statistics import Estimate, mean, mean_over_benchmarks
from metis.tasks.benchmarks.validation import benchmark
from metis.view.glyphs import plus_minus


def summary(folder: Path) -> list[str]:
    """The rise in accuracy, the rollouts it took, the use of the time, what went wrong, and what
    to do next."""
    run = read_run(folder)
    flat = notices.longest_standstill(run.metrics)
    wrong = [f"{flat.described}. {flat.remedy(folder)}"] if flat else []
    wrong += [f"the first failure: {reason}" for reason in logged_failures(folder)[:1]]
    return [_learnt(run), _spent(run), _took(run), *wrong, f"run folder: {folder}", _next(run)]


def _next(run: Recorded) -> str:
    """The commands that look at a run; a simulated one leaves no model to evaluate."""
    where = shlex.quote(str(run.folder))
    names = ("report", "inspect", "view", *(() if run.simulated else ("eval",)))
    return f"next: {' · '.join(f'metis {name} {where}' for name in names)}"


def _learnt(run: Recorded) -> str:
    tests = run.evaluations
    if not tests:
        return f"{run.steps:,} steps, none with a validation"
    first, last, best = tests[0], tests[-1], max(tests, key=lambda test: test.accuracy)
    rise, error = paired(run)
    line = f"held-out accuracy {first.accuracy:.3f} → {last.accuracy:.3f}"
    line += f" ({rise:+.3f}{plus_minus(error)}) in {run.steps:,} steps"
    if failed := dict(zip(*run.series("eval/failed"), strict=True)).get(last.step):
        line += f"; {failed:,.0f} held-out prompts failed in the end, and score 0"
    if best.step == last.step or best.accuracy <= first.accuracy:
        return line
    line += f"; best {best.accuracy:.3f} at step {best.step:,}"
    after = "" if best.elapsed is None else f", after {duration(best.elapsed, run.simulated)}"
    return line + after


def paired(run: Recorded) -> Estimate:
    """The rise from the first validation to the last, prompt by prompt, and its standard error.

    Prompts are paired within their benchmark, each of which has the same weight in the accuracy.
    On verl a prompt without a reward failed, which counts as 0; where no prompt is known, the rise
    has no standard error.
    """
    first, last = run.evaluations[0], run.evaluations[-1]
    before, after = run.rewards.get(first.step, {}), run.rewards.get(last.step, {})
    rises: dict[str, list[float]] = {}
    for prompt in sorted(before.keys() | after.keys()):
        name = benchmark(prompt) if run.config.get("benchmarks") else ""
        rises.setdefault(name, []).append(after.get(prompt, 0.0) - before.get(prompt, 0.0))
    if not rises:
        return Estimate(last.accuracy - first.accuracy, None)
    return mean_over_benchmarks([mean(values) for values in rises.values()])


def _spent(run: Recorded) -> str:
    line = f"{run.rollouts or 0:,.0f} rollouts"
    if discarded := sum(run.series("select/discarded").y):
        line += f", {discarded:,.0f} discarded"
    if cut := sum(run.series("rollout/cut_off").y):
        line += f", {cut / sum(run.series('rollout/generated').y):.0%} truncated"
    if failed := sum(run.series("rollout/failed").y):
        line += f", {failed:,.0f} failed"
    if run.informative is None:
        return f"{line}; none was trained on"
    return f"{line}; {run.informative:.0%} of groups trained on were informative"


def _took(run: Recorded) -> str:
    time = duration(run.elapsed, run.simulated)
    if run.judge_share is not None:
        share = f"judging took {run.judge_share:.1%} of {time}"
        return f"{share}; {trusted(run)}"
    parts = [f"{seconds / run.elapsed:.0%} {name}" for name, seconds in run.phases.items()]
    return f"{time} of training: {', '.join(parts)}" if parts else f"{time} of training"
