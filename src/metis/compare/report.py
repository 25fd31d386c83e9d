"""The files of a comparison: its table, its page and its figures."""

from collections.abc import Sequence
from pathlib import Path

from metis import report
from metis.compare import charts
from metis.compare.arms import Arm
from metis.compare.comparison import Comparison, read, require_arm
from metis.compare.page import page
from metis.compare.plan import Plan, saved
from metis.compare.table import markdown
from metis.errors import Damaged
from metis.report.panels import Figure
from metis.report.reproduce import command


def draw(comparison: Comparison) -> tuple[Comparison, list[Figure]]:
    """The figures of a comparison; it is left without the runs whose logs of them are damaged."""
    while True:
        try:
            return comparison, charts.figures(comparison)
        except Damaged as error:
            comparison = comparison.without(error)


def write(
    folder: Path,
    comparison: Comparison,
    drawn: Sequence[Figure],
    plan: Plan | None,
    out: Path | None = None,
) -> list[str]:
    """Write the report of a comparison into its folder, or into `out`; return what to say."""
    out, text = out or folder, markdown(comparison)
    html = page(comparison, drawn, commands(folder, comparison, plan))
    where = report.save(out, {"comparison.md": text, "report.html": html}, drawn)
    return [text, f"comparison: {out / 'comparison.md'}", *where]


def redraw(folder: Path, out: Path | None = None, baseline: str = "") -> list[str]:
    """The same for a folder as it is, with nothing trained and no baseline saved."""
    plan = saved(folder)
    require_arm(folder, plan, baseline)
    comparison = read(folder, plan, baseline=baseline, any_baseline=not baseline)
    return write(folder, *draw(comparison), plan, out)


def commands(folder: Path, comparison: Comparison, plan: Plan | None) -> list[str]:
    """Command lines that make the comparison again: by its plan, or else run by run."""
    name = folder.resolve().name
    if plan is not None:
        return [_compare(plan, comparison.baseline.name, name)]
    runs = [run.folder.name for arm in comparison.everyone for run in arm.records]
    lines = [command("train", f"{name}/{run}/config.json", "--out", f"again/{run}") for run in runs]
    return [*lines, command("compare", "--baseline", comparison.baseline.name, "--out", "again")]


def _compare(plan: Plan, baseline: str, name: str) -> str:
    plain = [arm for arm in plan.arms if arm == Arm(arm.name, (f"curriculum={arm.name}",))]
    words = [plan.recipe] if plan.recipe else []
    words += plan.settings
    words += ["--curricula", ",".join(arm.name for arm in plain)] if plain else []
    for arm in plan.arms:
        if arm not in plain:
            words += ["--arm", f"{arm.name}:{','.join(arm.settings)}"]
    words += ["--seeds", ",".join(map(str, plan.seeds)), "--baseline", baseline, "--out", name]
    return command("compare", *words)
