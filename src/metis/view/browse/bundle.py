"""Writes the page and its data into a folder that opens without a server.

A page that is opened from a folder may load no data but scripts: each answer of the server that the
page can ask for is a script that hands it over. What would be searched for needs the server.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from metis import files
from metis.errors import MetisError, require_folder
from metis.files import require_new_folder
from metis.view.browse import assets
from metis.view.browse.answers import REWARDS, SIZE
from metis.view.browse.opened import Opened, open_folders
from metis.view.browse.routes import Routes

MOST, BYTES = 20_000, 200_000_000
"""Scripts of a bundle, and their bytes."""
NAME = 200
"""Characters of the longest name of a script."""
PAGES = 40
"""Pages of a list; of what is beyond, the page says which command shows it."""

_ROLLED_OUT = """
SELECT prompt FROM (SELECT prompt, step FROM groups UNION SELECT prompt, step FROM answers)
GROUP BY prompt ORDER BY max(step) DESC
"""
_ANSWERS = "SELECT kind, step, prompt, rollout FROM answers ORDER BY step DESC, first, rollout"
_OTHERS = """
SELECT prompt FROM judgments WHERE prompt NOT IN (SELECT prompt FROM groups)
AND prompt NOT IN (SELECT prompt FROM answers) GROUP BY prompt ORDER BY max(step) DESC
"""


def write_bundle(folders: Sequence[Path], out: Path) -> Path:
    """Write the page of folders into a folder; `index.html`, which opens it, comes last.

    Of a damaged run the page says what is wrong; that there is no other is an error.
    """
    require_folder(out)
    require_new_folder(out)
    opened = open_folders(folders)
    runs = [each for each in opened if isinstance(each, Opened)]
    try:
        for run in runs:
            run.index.update()
        if runs and all(run.wrong for run in runs):
            raise MetisError(f"{runs[0].folder}: {runs[0].wrong}")
        for run in runs:
            if run.wrong:
                _tell(f"{run.folder}: {run.wrong}")
        for name in (*assets.FILES, *assets.names(*assets.LICENCES)):
            if name != "index.html":
                _write(out / name, assets.read(name))
        left = _write_answers(Routes(opened), list(_addresses(opened)), out / "data")
        _write(out / "index.html", assets.read("index.html"))
    except OSError as error:
        raise MetisError(
            f"--bundle {str(out)!r} cannot be written ({error.strerror or error}): name another"
        ) from None
    finally:
        for run in runs:
            run.close()
    if left:
        _tell(
            f"left out: {left:,} pages, of the oldest steps first; without --bundle all are there"
        )
    return out / "index.html"


def _tell(text: str) -> None:
    print(f"metis: {text}", file=sys.stderr)


def _write_answers(routes: Routes, addresses: Sequence[str], out: Path) -> int:
    """Write the routes' answers up to the limits of a bundle; returns how many were left out."""
    count = size = left = 0
    out.mkdir(exist_ok=True)
    for address in addresses:
        name = script_name(address)
        if count >= MOST or size >= BYTES or len(name) > NAME:
            left += 1
            continue
        status, content = routes.answer(address)
        if status == 200:
            content = _lasting(content)
            _write(
                out / name,
                b"metis.answer(" + json.dumps(address).encode() + b", " + content + b");\n",
            )
            count, size = count + 1, size + len(content)
    return left


def _lasting(content: bytes) -> bytes:
    """An answer without what only a live server reports: its duration and progress."""
    answer = json.loads(content)
    if isinstance(answer, dict):
        answer.pop("seconds", None)
        answer.pop("revision", None)
        answer.get("indexed", {}).pop("bytes", None)
    return json.dumps(answer).encode()


def script_name(address: str) -> str:
    """The script's file name of an address, computed alike in the page."""
    return f"{_quoted(address).replace('%', '~')}.js"


def _quoted(text: str) -> str:
    """As `encodeURIComponent` in a browser."""
    return quote(text, safe="-_.!~*'()")


def _addresses(opened: Sequence[object]) -> Iterator[str]:
    """The addresses that the page requests without a search: lists, then details, newest first."""
    yield "folders"
    yield from (f"{place}/overview" for place in range(len(opened)))
    runs = [(place, each) for place, each in enumerate(opened) if isinstance(each, Opened)]
    for place, run in runs:
        yield from _lists(place, run)
    for place, run in runs:
        yield from _details(place, run)


def _lists(place: int, run: Opened) -> Iterator[str]:
    database = run.index.database
    steps = database.rows(
        "SELECT step FROM metrics UNION SELECT step FROM groups ORDER BY step DESC"
    )
    yield from (f"{place}/steps/{step}" for (step,) in steps)
    for outcome in ("", *_outcomes(run)):
        asked = {"outcome": outcome} if outcome else {}
        yield from _pages(f"{place}/prompts", asked, run.prompts.page(asked)["total"])
    kinds = [kind for (kind,) in database.rows("SELECT DISTINCT kind FROM members")]
    by_step = database.rows("SELECT DISTINCT kind, step FROM members ORDER BY step DESC")
    of_steps = [{"kind": kind, "step": str(step)} for kind, step in by_step]
    for asked in (*_narrowed(kinds), *of_steps):
        yield from _pages(f"{place}/answers", asked, run.answers.page(asked)["total"])


def _narrowed(kinds: Sequence[str]) -> Iterator[dict[str, str]]:
    """The filters that the page offers without a search; none comes first."""
    for kind in ("", *kinds):
        for reward in ("", *REWARDS):
            for name in ("", "truncated", "failed"):
                given = {"kind": kind, "reward": reward, name: "1"}
                yield {key: value for key, value in given.items() if key and value}


def _outcomes(run: Opened) -> list[str]:
    rows = run.index.database.rows("SELECT DISTINCT outcome FROM groups WHERE outcome <> ''")
    return [name for (name,) in rows]


def _pages(address: str, asked: Mapping[str, str], count: int) -> Iterator[str]:
    """A list page by page, up to the limit of a bundle."""
    for page in range(min(PAGES, max(1, -(-count // SIZE)))):
        given = {**asked, **({"page": str(page)} if page else {})}
        query = "&".join(f"{name}={_quoted(value)}" for name, value in given.items())
        yield f"{address}?{query}" if query else address


def _details(place: int, run: Opened) -> Iterator[str]:
    database = run.index.database
    for (prompt,) in database.rows(_ROLLED_OUT):
        yield f"{place}/prompt?id={_quoted(prompt)}"
    for kind, step, prompt, rollout in database.rows(_ANSWERS):
        where = f"kind={kind}&step={step}&prompt={_quoted(prompt)}&rollout={rollout}"
        yield f"{place}/answer?{where}"
    for (prompt,) in database.rows(_OTHERS):
        yield f"{place}/prompt?id={_quoted(prompt)}"


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.atomic(path) as file:
        file.write(content)
