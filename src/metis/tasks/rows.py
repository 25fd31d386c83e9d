"""Files of problems, row by row: JSON lines, plain or gzipped, and parquet."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from metis.errors import MetisError


def read_rows(path: Path, key: str = "task.path") -> Iterator[tuple[int, dict[str, Any]]]:
    """Numbered rows of a file, from 1; what cannot be read is an error that names `key`."""
    read = _parquet if path.suffix == ".parquet" else _json_lines
    number = 0
    try:
        for number, row in enumerate(read(path), start=1):
            if not isinstance(row, dict):
                raise ValueError("not an object")
            yield number, row
    except FileNotFoundError:
        raise MetisError(f"{key} = {str(path)!r}: no such file") from None
    except (OSError, EOFError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise MetisError(f"{key} = {str(path)!r}, after row {number}: {reason}") from None


def _json_lines(path: Path) -> Iterator[Any]:
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        for line in file:
            yield json.loads(line)


def _parquet(path: Path) -> Iterator[Any]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise MetisError("a parquet file needs pyarrow: pip install 'metis-rft[math]'") from None
    with parquet.ParquetFile(path) as table:
        for batch in table.iter_batches():
            yield from batch.to_pylist()
