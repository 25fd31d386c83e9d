"""The file of a log: JSON lines, plain as a run writes them or gzipped as a published run has them.

Where a log is there in both forms, the plain one is the log: it is what a run writes.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from metis.errors import Damaged

GZIPPED = ".gz"


def find(folder: Path, log: str) -> Path:
    """The file of a log in its folder; its plain name where there is none."""
    plain = folder / f"{log}.jsonl"
    gzipped = plain.with_name(plain.name + GZIPPED)
    return gzipped if gzipped.exists() and not plain.exists() else plain


def lines(file: Path) -> Iterator[bytes]:
    """The lines of a log, one at a time; what cannot be unpacked to its end is refused."""
    if file.suffix != GZIPPED:
        with file.open("rb") as plain:
            yield from plain
        return
    number = 0
    try:
        if not file.stat().st_size:  # which gzip takes for no lines
            raise EOFError("the file is empty")
        with gzip.open(file) as unpacked:
            for line in unpacked:
                number += 1
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        message = f"{file}, after line {number}, is damaged ({error}): restore the file"
        raise Damaged(message, file.parent, f"{file.name}, after line {number}") from None
