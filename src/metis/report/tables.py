"""The table of runs, and the few numbers that a person asks for first."""

from collections.abc import Sequence

from metis.run.recorded import Recorded, Validation
from metis.run.statistics import Estimate
from metis.tasks.benchmarks.catalogue import title
from metis.text import markdown_table

HEADER = (
    "run",
    "engine",
    "steps",
    "held-out accuracy before",
    "held-out accuracy after",
    "best held-out accuracy",
    "best after",
    "informative groups",
    "rollouts",
    "elapsed",
    "judge share",
)
MISSING = "–"
BY_BENCHMARK = "Accuracy by benchmark at the best validation, in percent"


def accuracy(evaluation: Validation) -> str:
    """An accuracy with its standard error where it is known."""
    error = "" if evaluation.stderr is None else f" ±\u00a0{evaluation.stderr:.3f}"
    return f"{evaluation.accuracy:.3f}{error}"


def percent(score: Estimate) -> str:
    """A score in percent with its standard error where it is known."""
    error = "" if score.error is None else f" ± {100 * score.error:.1f}"
    return f"{100 * score.mean:.1f}{error}"


def share(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1%}"


def duration(seconds: float, simulated: bool = False) -> str:
    """Seconds in words a person reads at a glance."""
    if seconds < 1200:
        text = f"{seconds:.3g} s"
    elif seconds < 3 * 3600:
        text = f"{seconds / 60:.1f} min"
    else:
        text = f"{seconds / 3600:.1f} h"
    return f"{text} (simulated)" if simulated else text


def _whole(text: str) -> str:
    """A number that stays on a line with its unit."""
    return text.replace(" ", "\u00a0")


def trusted(run: Recorded) -> str:
    """In how many steps the judge chose the batch, and in how many half of it."""
    half = f", half of it in {run.tried:,}" if run.tried else ""
    return f"the judge chose the batch alone in {run.selected:,} of {run.steps:,} steps{half}"


def progress(run: Recorded) -> str:
    """Steps done, and of how many where some are left."""
    return f"{run.steps:,}" if run.steps >= run.planned else f"{run.steps:,} of {run.planned:,}"


def rows(runs: Sequence[Recorded]) -> list[tuple[str, ...]]:
    """One row a run, as `HEADER` names them; the engine says whose seconds they are."""
    table: list[tuple[str, ...]] = []
    for run in runs:
        tests, best = run.evaluations, run.best
        reached = best.elapsed if best else None
        table.append(
            (
                run.label,
                run.named("engine") or MISSING,
                _whole(progress(run)),
                accuracy(tests[0]) if tests and tests[0].step == 0 else MISSING,
                accuracy(tests[-1]) if tests and tests[-1].step > 0 else MISSING,
                accuracy(best) if best else MISSING,
                MISSING if reached is None else _whole(duration(reached)),
                share(run.informative),
                MISSING if run.rollouts is None else f"{run.rollouts:,.0f}",
                _whole(duration(run.elapsed)) if run.timings else MISSING,
                share(run.judge_share),
            )
        )
    return table


def by_benchmark(runs: Sequence[Recorded]) -> list[tuple[str, ...]]:
    """Every run at its best validation, with a column for each benchmark; nothing of runs that were
    not validated on several."""
    tests = [(run, run.best, run.by_benchmark(run.best.step)) for run in runs if run.best]
    names = dict.fromkeys(name for _, _, scores in tests for name in scores)
    if len(names) < 2:
        return []
    table = [("run", "at step", *map(title, names), "Avg.")]
    for run, best, scores in tests:
        cells = [f"{100 * scores[name]:.1f}" if name in scores else MISSING for name in names]
        average = percent(Estimate(best.accuracy, best.stderr))
        table.append((run.label, f"{best.step:,}", *cells, average))
    return table


def markdown(runs: Sequence[Recorded]) -> str:
    """The tables of runs in Markdown."""
    tables = [markdown_table([HEADER, *rows(runs)])]
    if benchmarks := by_benchmark(runs):
        tables += [f"## {BY_BENCHMARK}\n", markdown_table(benchmarks)]
    return "\n".join(tables)
