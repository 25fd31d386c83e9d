"""Benchmarks of programming: published files, or what `metis prepare code` made of them.

The score is the paper's, the fraction of tests passed; beside it stands the share of problems with
all tests passed. Problems whose libraries the sandbox does not have are left out, and counted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from metis.data import table
from metis.errors import MetisError
from metis.tasks.code import libraries, pool, stored
from metis.tasks.code.problem import Problem
from metis.tasks.code.published import bigcodebench, humaneval, livecodebench, mbpp
from metis.tasks.code.stored import Entry
from metis.tasks.code.task import Code, CodeProblems
from metis.tasks.file import read_rows

READERS: dict[str, Callable[[Mapping[str, Any]], Problem]] = {
    "livecodebench": livecodebench.problem,
    "humaneval": humaneval.problem,
    "mbpp": mbpp.problem,
    "mbpp-test": mbpp.problem,
    "bigcodebench": bigcodebench.problem,
}


def read_programs(name: str, path: Path, key: str, settings: Code) -> tuple[CodeProblems, int, str]:
    """The problems of a benchmark, how many its file has, and a remark on those left out."""
    entries = list(_entries(name, path, key))
    if name == "mbpp-test":
        entries = [entry for entry in entries if mbpp.in_test_split(entry.id)]
    usable, remark = _with_libraries(entries) if name == "bigcodebench" else (entries, "")
    return CodeProblems((), usable, settings), len(entries), remark


def _entries(name: str, path: Path, key: str) -> Iterator[Entry]:
    if any(field.startswith("reward_model.") for field in table.fields(path)):
        yield from stored.read_stored(path)
        return
    for number, row in enumerate(read_rows(str(path), key), start=1):
        try:
            yield READERS[name](row)
        except (KeyError, TypeError, ValueError, SyntaxError) as error:
            raise MetisError(
                f"{key} = {str(path)!r}, row {number}: not of {name}'s published form "
                f"({type(error).__name__}: {error}); fetch it again: metis prepare code {name}"
            ) from None


def _with_libraries(entries: Sequence[Entry]) -> tuple[list[Entry], str]:
    """The problems that can be run here, and what is missing for the others."""
    needed = {entry.id: entry.whole().libraries for entry in entries}
    missing = libraries.missing(name for each in needed.values() for name in each)
    usable = [entry for entry in entries if not missing & set(needed[entry.id])]
    if not missing:
        return usable, ""
    names = ", ".join(sorted(missing))
    left_out = f"{len(entries) - len(usable):,} of {len(entries):,} problems are left out"
    return usable, (
        f"{left_out}: the sandbox lacks libraries that they need ({names}); {pool.LIBRARIES} names "
        "folders with more"
    )
