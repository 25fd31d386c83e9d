"""Tables of rows, parquet or JSON lines (plain or gzipped), read alike.

A field of a nested row is named by its path: `reward_model.ground_truth`, `prompt.0.content`.
"""

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from metis.data import parquet
from metis.errors import MetisError, MissingData

SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz")


def rows(
    path: Path | str, columns: Sequence[str] = (), batch_size: int = parquet.BATCH
) -> Iterator[dict[str, Any]]:
    """The rows of a file in their order, nested as they are; of parquet, some columns only."""
    path = Path(path)
    if not _is_parquet(path):
        return _lines(path)
    return parquet.rows(path, columns or None, batch_size)


def fields(path: Path) -> list[str]:
    """The paths of all fields with a plain value; of JSON lines, those of the first row."""
    if _is_parquet(path):
        return parquet.fields(path)
    return list(_plain(next(_lines(path), {})))


def values(path: Path, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The named fields of every row; None where a row has no plain value there."""
    if _is_parquet(path):
        return parquet.values(path, names)
    return (tuple(_only_plain(field(row, name)) for name in names) for row in _lines(path))


def field(row: Any, name: str, missing: Any = None) -> Any:
    """The value at a path in a row; `missing` where there is no such path."""
    for part in name.split("."):
        if isinstance(row, dict) and part in row:
            row = row[part]
        elif isinstance(row, list) and part.isdigit() and int(part) < len(row):
            row = row[int(part)]
        else:
            return missing
    return row


def _is_parquet(path: Path) -> bool:
    if path.is_dir():
        raise MetisError(f"{str(path)!r}: a folder; name a file in it")
    if not path.is_file():
        raise MissingData(f"{str(path)!r}: no such file")
    if not path.name.endswith(SUFFIXES):
        raise MetisError(f"{str(path)!r}: not a table known here; use {', '.join(SUFFIXES)}")
    return path.suffix == ".parquet"


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for line in file:
                number += 1
                if line.isspace():
                    continue
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError(f"a {type(row).__name__}")
                yield row
    except (OSError, EOFError, zlib.error) as error:
        raise MetisError(
            f"{str(path)!r} cannot be read at line {number} ({error}): is it whole? Fetch it again"
        ) from None
    except (ValueError, RecursionError) as error:
        raise MetisError(
            f"{str(path)!r}, line {number}, is no JSON object ({error}): mend that line; or is "
            "the file not whole?"
        ) from None


def _only_plain(value: Any) -> Any:
    return None if isinstance(value, dict | list) else value


def _plain(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _plain(item, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for item in value[:1]:
            yield from _plain(item, f"{name}.0")
    else:
        yield name
