"""Reports of runs: a page, figures and a table, made from run folders alone."""

from collections.abc import Sequence
from pathlib import Path

from metis import files
from metis.errors import MetisError, require_folder
from metis.report import charts, figures, opening, subjects, tables
from metis.report.page import page
from metis.report.panels import Figure
from metis.run import recorded

__all__ = ["save", "write"]


def write(folders: Sequence[Path], out: Path | None = None) -> list[str]:
    """Write the report of one run into its folder, of several into `out`; return what to say."""
    runs = recorded.read_runs(folders)
    out = out or (runs[0].folder if len(runs) == 1 else Path("report"))
    shown = subjects.each(runs)
    tested = charts.accuracy_figure(shown)
    drawn = [*([tested] if tested else []), *charts.figures(shown)]
    text = opening.markdown(runs) + tables.markdown(runs)
    return [text, *save(out, {"report.html": page(runs, drawn), "report.md": text}, drawn)]


def save(out: Path, texts: dict[str, str], drawn: Sequence[Figure]) -> list[str]:
    """Write the files and figures of a report into a folder; return where they are."""
    require_folder(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            with files.atomic(out / name) as file:
                file.write(text.encode("utf-8", "replace"))
        count = figures.write(drawn, out / "figures")
    except OSError as error:
        raise MetisError(
            f"report folder {str(out)!r} cannot be written ({error.strerror or error}): mend "
            "that, or name another with --out"
        ) from None
    return [f"report: {out / 'report.html'}", f"figures: {out / 'figures'} ({count} SVG)"]
