"""Writes rows given in memory into the output folder, so that it can be resumed and evaluated."""

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from metis import files
from metis.errors import MetisError
from metis.run.folder import DATA

MADE = ("config.json", "compare.json")
"""Files that say that a folder is in use."""


@contextlib.contextmanager
def filed(data: Any, folder: Path) -> Iterator[str]:
    """The path of the data; rows given in memory are written to a file in the folder.

    On an error the file is deleted, unless something was made with it.
    """
    if isinstance(data, str | Path):
        yield str(data)
        return
    content, file = encoded(data), folder / DATA
    if file.exists() or _in_use(folder):
        _require_same(content, file)
        yield str(file.resolve())
        return
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    with files.atomic(file) as opened:
        opened.write(content)
    try:
        yield str(file.resolve())
    except BaseException:
        if not _in_use(folder):
            file.unlink()
            with contextlib.suppress(OSError):
                for path in new:
                    path.rmdir()
        raise


def digest(data: Any) -> str:
    """A hash of rows, to name their file."""
    return hashlib.sha256(encoded(data)).hexdigest()[:8]


def encoded(data: Any) -> bytes:
    """Rows as JSON lines: of a list, a `datasets.Dataset`, or what else yields mappings."""
    if isinstance(data, Mapping):
        raise MetisError(
            f"data: a mapping with {', '.join(map(str, data))}; give rows, or one split of it"
        )
    if not isinstance(data, Iterable) or isinstance(data, Iterator):
        raise MetisError(
            f"data = {data!r}: give rows, as a list of mappings, or the path of a file"
        )
    lines = [_line(number, row) for number, row in enumerate(data, start=1)]
    if not lines:
        raise MetisError("data has no rows")
    return "".join(lines).encode()


def _line(number: int, row: Any) -> str:
    if not isinstance(row, Mapping):
        raise MetisError(
            f"data, row {number}, is a {type(row).__name__}: rows are mappings, such as "
            "{'problem': '3 + 4', 'answer': 7}; those of a DataFrame are df.to_dict('records')"
        )
    try:
        return json.dumps(dict(row), default=_plain, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise MetisError(f"data, row {number}: {error}: use texts, numbers and lists") from None


def _plain(value: Any) -> Any:
    """A number or an array of any library."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a value of type {type(value).__name__} cannot be written as JSON")


def _in_use(folder: Path) -> bool:
    return any((folder / name).exists() for name in MADE)


def _require_same(content: bytes, file: Path) -> None:
    if not file.exists() or file.read_bytes() != content:
        raise MetisError(f"data: {str(file.parent)!r} has other data: name another folder with out")
