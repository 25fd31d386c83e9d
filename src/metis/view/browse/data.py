"""The data of the page: its own files, and of a run one row for each candidate of each step.

A server sends it, or `write_bundle` writes it into a folder that opens without one.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from metis import files
from metis.errors import Damaged, MetisError, require_folder
from metis.run import folder as run_folder
from metis.run.metrics import reasons
from metis.run.recorded import Recorded, is_number
from metis.run.statistics import group_kind
from metis.signal import variance
from metis.view.inspection import COLUMNS, answers

Row = Mapping[str, Any]

NOT_ROLLED_OUT = "not rolled out"

JUDGED = ("reason", "score", "failure", "propensity")
"""Fields of every judgment that the page has."""
WRITTEN = ("reply", "distribution")
"""Fields of rolled-out prompts alone; those of all candidates would make the page too large."""
EARNED = ("rewards", "tokens", "failed", "reported", "text")
SCRIPT = "text/javascript; charset=utf-8"
STYLE = "text/css; charset=utf-8"
SCRIPTS = (
    *("theme", "vendor/preact", "vendor/hooks", "vendor/htm", "loading", "address", "texts"),
    *("charts", "parts", "overview", "step", "prompts", "answers", "answer", "comparison"),
    *("keys", "view"),
)
FILES = {
    "index.html": "text/html; charset=utf-8",
    "colours.css": STYLE,
    "view.css": STYLE,
    **{f"{name}.js": SCRIPT for name in SCRIPTS},
}
"""Files that a browser asks for, and what they are."""

LICENCES = (
    "vendor/VENDORED.md",
    "vendor/LICENSE-preact.txt",
    "vendor/LICENSE-htm.txt",
)
"""Files that go with them wherever they are copied to."""

RUNS = "runs.js"


def document(run: Recorded) -> dict[str, Any]:
    """Everything that the page shows of a run."""
    exemplars: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in run_folder.read_log(run.folder, "exemplars", optional=True):
        shown = ("prompt", "value", "variance", "outcome_step")
        exemplars[row["step"]].append({name: row.get(name) for name in shown})
    return {
        "label": run.label,
        "steps": list(_steps(run)),
        "rows": list(_rows(run)),
        "exemplars": exemplars,
        "reasons": dict(reasons()),
    }


def _steps(run: Recorded) -> Iterator[dict[str, Any]]:
    for row in run.metrics:
        numbers = {name: row[key] for name, key in COLUMNS.items() if is_number(row.get(key))}
        yield {"step": row["step"], **numbers}


def _rows(run: Recorded) -> Iterator[dict[str, Any]]:
    groups = {
        (row["step"], row["prompt"]): row
        for row in run_folder.read_log(run.folder, "rollouts", optional=True)
    }
    categories = {prompt: str(row.get("category", "")) for (_, prompt), row in groups.items()}
    judged: set[tuple[int, str]] = set()
    for judgment in run_folder.read_log(run.folder, "judgments", optional=True):
        place = judgment["step"], judgment["prompt"]
        judged.add(place)
        yield _row(place, categories.get(place[1], ""), judgment, groups.get(place))
    for place, group in groups.items():
        if place not in judged:
            yield _row(place, categories[place[1]], {}, group)


def _row(place: tuple[int, str], category: str, judgment: Row, group: Row | None) -> dict[str, Any]:
    row: dict[str, Any] = {"step": place[0], "prompt": place[1], "category": category}
    row |= {name: judgment[name] for name in JUDGED if name in judgment}
    if group is None:
        return row | {"outcome": NOT_ROLLED_OUT}
    rewards = group.get("rewards", [])
    row |= {name: judgment[name] for name in WRITTEN if name in judgment}
    row |= {name: group[name] for name in EARNED if name in group}
    kept = answers(group)
    row |= {"outcome": group_kind(rewards), "answers": kept if any(kept) else []}
    if len(rewards) > 1:
        row["variance"] = variance(rewards)
    return row


def read(name: str) -> bytes:
    """A file of the page."""
    return resources.files("metis.view.browse").joinpath("page", name).read_bytes()


def listing(runs: Sequence[Recorded]) -> bytes:
    """The script that names the runs."""
    return script("metis.list", [run.label for run in runs])


def script(function: str, *values: Any) -> bytes:
    """A script that hands values to a function of the page.

    A script, since a page that is opened from a folder may load no other data.
    """
    return f"{function}({', '.join(json.dumps(value) for value in values)});\n".encode()


def write_bundle(runs: Sequence[Recorded], out: Path) -> Path:
    """Write the page of runs into a folder; `index.html`, which opens it, comes last.

    Of a damaged run the page says what is wrong; that there is no other is an error.
    """
    require_folder(out)
    try:
        for name in (*FILES, *LICENCES):
            if name != "index.html":
                _write(out / name, read(name))
        damaged = []
        for number, run in enumerate(runs):
            try:
                content = script("metis.add", number, document(run))
            except Damaged as error:
                damaged.append(error)
                content = script("metis.fail", number, f"{error.what}, is damaged")
            _write(out / "data" / f"{number}.js", content)
        if damaged and len(damaged) == len(runs):
            raise damaged[0]
        for wrong in damaged:
            print(f"metis: {wrong}", file=sys.stderr)
        _write(out / RUNS, listing(runs))
        _write(out / "index.html", read("index.html"))
    except OSError as error:
        raise MetisError(
            f"--bundle {str(out)!r} cannot be written ({error.strerror or error}): name another"
        ) from None
    return out / "index.html"


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.atomic(path) as file:
        file.write(content)
