"""Parquet files, through pyarrow, which is loaded when one is read or written.

Fields are taken column by column, so that a file of millions of rows streams in little memory.
"""

import contextlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from metis.data.verl_rows import schema
from metis.errors import MetisError, pip_install
from metis.files import atomic

BATCH = 4096
ABOUT = b"metis"
"""The key under which a file says what it was made from."""


def rows(
    path: Path, columns: Sequence[str] | None = None, batch_size: int = BATCH
) -> Iterator[dict[str, Any]]:
    """The rows of a file in order, nested; of the named columns, those that it has."""
    with _opened(path) as file:
        present = None if columns is None else [c for c in columns if c in file.schema_arrow.names]
        for batch in file.iter_batches(batch_size, columns=present):
            yield from batch.to_pylist()


def value(path: Path, row: int, column: str) -> Any:
    """One value of a file; reads only its row group."""
    with _opened(path) as file:
        before = 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if row < before + count:
                return file.read_row_group(group, columns=[column])[column][row - before].as_py()
            before += count
    raise IndexError(row)


def fields(path: Path) -> list[str]:
    """The paths of all fields with a plain value."""
    with _opened(path) as file:
        return [name for column in file.schema_arrow for name in _plain(column.type, column.name)]


def values(path: Path, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The named fields of every row; None where the file lacks one."""
    file_fields = set(fields(path))
    present = [name for name in names if name in file_fields]
    with _opened(path) as file:
        columns = sorted({name.partition(".")[0] for name in present})
        for batch in file.iter_batches(BATCH, columns=columns, use_threads=False):
            read = {name: _column(batch, name).to_pylist() for name in present}
            missing = [None] * batch.num_rows
            yield from zip(*(read.get(name, missing) for name in names), strict=True)


def about(path: Path) -> dict[str, Any] | None:
    """The sources that a file says it was made from; None for a file from elsewhere."""
    with _opened(path) as file:
        text = (file.metadata.metadata or {}).get(ABOUT)
        said: dict[str, Any] | None = json.loads(text) if text else None
        return said


def write(path: Path, table: Sequence[dict[str, Any]], made_from: dict[str, Any]) -> None:
    """Write rows in the columns that verl reads; the file appears when it is whole."""
    pyarrow, parquet = arrow()
    types = schema(pyarrow).with_metadata({ABOUT: json.dumps(made_from).encode()})
    with atomic(path) as file:
        parquet.write_table(pyarrow.Table.from_pylist(table, schema=types), file)


def stream(
    path: Path, table: Iterable[dict[str, Any]], made_from: Callable[[], dict[str, Any]], group: int
) -> None:
    """Like `write`, from an iterator; holds one row group in memory.

    `made_from` is asked after the last row.
    """
    pyarrow, parquet = arrow()
    types = schema(pyarrow)
    with atomic(path) as file, parquet.ParquetWriter(file, types) as writer:
        for part in _parts(table, group):
            writer.write_table(pyarrow.Table.from_pylist(part, schema=types))
        writer.add_key_value_metadata({ABOUT: json.dumps(made_from()).encode()})


def _parts(table: Iterable[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    left = iter(table)
    while part := list(itertools.islice(left, size)):
        yield part


def _plain(kind: Any, name: str) -> Iterator[str]:
    """The paths below a column that lead to a string, a number or the like."""
    types = arrow()[0].types
    if types.is_struct(kind):
        for inner in kind.fields:
            yield from _plain(inner.type, f"{name}.{inner.name}")
    elif types.is_list(kind) or types.is_large_list(kind):
        yield from _plain(kind.value_type, f"{name}.0")
    else:
        yield name


def _column(batch: Any, name: str) -> Any:
    from pyarrow import compute

    top, *inner = name.split(".")
    column = batch.column(top)
    for part in inner:
        nested = arrow()[0].types.is_struct(column.type)
        column = (
            compute.struct_field(column, part)
            if nested
            else compute.list_element(column, int(part))
        )
    return column


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    pyarrow, parquet = arrow()
    try:
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise MetisError(
            f"{str(path)!r} cannot be read ({reason}): is it whole? Fetch it again"
        ) from None


def arrow() -> tuple[Any, Any]:
    """pyarrow and its parquet module; where they are not installed, how to get them."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MetisError(f"parquet files need pyarrow: {pip_install('math')}") from None
    return pyarrow, parquet
