"""Writes docs/metrics.md from the table of what a run writes down: `make docs`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from metis.report.charts import PER_STEP
from metis.run import metrics

PAGE = Path(__file__).with_name("metrics.md")
HEAD = """\
# Metrics and the run folder

Every number that a run logs: name, unit, meaning, and who writes it (a curriculum, an engine, or
every run). A step has only the metrics that are defined in it. A
[curriculum of your own](adding-a-curriculum.md) may add others.

This page is made from `src/metis/run/metrics.toml` by `make docs`; change that, not it.

To look at a run:

```python
import pandas as pd

metrics = pd.read_json("runs/a/metrics.jsonl", lines=True).set_index("step")
metrics[["batch/reward", "batch/informative", "judge/spearman"]].plot(subplots=True)

judged = pd.read_json("runs/a/judgments.jsonl", lines=True)  # why this prompt?
judged[judged.chosen].groupby("reason")[["score", "variance"]].mean()
```

## Words of the terminal and the report
"""
FOLDER = """\
## The run folder

Logs are JSON lines; `schema` is the version of the format. A resumed run truncates its logs to the
checkpoint, so that no step is in them twice.
"""


def page() -> str:
    return "\n".join([HEAD, *words(), *numbers(), *folder()])


def words() -> Iterator[str]:
    yield from table(("word", "meaning"), metrics.glossary().items())
    yield "\nFigures of the report that show a metric under another name:\n"
    yield from table(("figure", "axis", "metric"), panels())


def panels() -> Iterator[tuple[str, str, str]]:
    for figure in PER_STEP:
        for drawn in figure.metrics:
            beside = f", dashed `{drawn.dashed}`" if drawn.dashed else ""
            yield figure.title, drawn.y_label, f"`{drawn.name}`{beside}"


def numbers() -> Iterator[str]:
    yield "\n## Metrics\n"
    for section in metrics.metric_sections():
        yield f"### {section.title}\n"
        if section.about:
            yield f"{section.about}\n"
        rows = ((f"`{it.name}`", it.unit, it.meaning, it.by) for it in section.metrics)
        yield from table(("metric", "unit", "meaning", "written by"), rows)
        yield ""


def folder() -> Iterator[str]:
    yield FOLDER
    yield from table(("file", "what"), code(metrics.files()))
    for log in metrics.logs():
        yield f"\n### {log.name}\n\n{log.about}\n"
        yield from table(("field", "meaning"), code(dict(log.fields)))
        if log.name == "judgments.jsonl":
            yield "\nReasons:\n"
            yield from table(("reason", "meaning"), code(metrics.reasons()))
    yield ""


def code(explained: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((f"`{name}`", meaning) for name, meaning in explained.items())


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield "|---" * len(header) + "|"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
