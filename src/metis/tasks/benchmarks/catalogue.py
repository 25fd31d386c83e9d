"""The benchmarks: what each is called, where its file lies, and how large it must be.

A benchmark is a name of `BENCHMARKS`, a suite of them, or the path of a file with a problem and an
answer in every row, parquet or JSON lines. A file that is called like a benchmark, or was prepared
as one, is that benchmark and must be whole.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metis.data import table
from metis.data.math_sets import SETS
from metis.errors import MetisError, MissingData
from metis.tasks import file
from metis.tasks.base import Task
from metis.tasks.benchmarks import function_calling
from metis.tasks.benchmarks.sets import PromptSet, scorer, source
from metis.tasks.bfcl import Bfcl
from metis.tasks.file import File, read_rows
from metis.tasks.math import Math, MathProblems, read_problems
from metis.tasks.math.answers.verifier import Verifier


@dataclass(frozen=True)
class Benchmark:
    """A published set of problems.

    title     what tables call it
    stems     the names that its file may have, without the suffix
    measured  its references are measured quantities, so that near numbers are scored beside it
    """

    title: str
    stems: tuple[str, ...]
    measured: bool = False


BENCHMARKS = {
    "aime24": Benchmark("AIME24", ("aime24",)),
    "aime25": Benchmark("AIME25", ("aime25",)),
    "math500": Benchmark("MATH500", ("math500",)),
    "minerva": Benchmark("Minerva", ("minerva", "minerva_math"), measured=True),
}

SUITES = {
    "math": ("aime24", "aime25", "math500", "minerva"),
    "bfcl": tuple(function_calling.TITLES),
}
"""Benchmarks side by side in the paper's tables, in their order."""

READERS = ("file", "math")
"""Tasks that read files, and so say how one is asked."""

OWN = "heldout"
"""Stands for the test of a training run, whatever that was."""


PAPER = Math(path="-", verify=False)
"""The paper's asking and scoring, whatever the file."""


@dataclass(frozen=True)
class Manner:
    """The asking and scoring of files: benchmarks as mathematics, others by the task of a run.

    math      settings of mathematics
    file      settings of a run's task=file; without them a file is mathematics too
    verifier  the second opinion on mathematics, if any
    bfcl      settings of a run's task=bfcl
    """

    math: Math = PAPER
    file: File | None = None
    verifier: Verifier | None = None
    bfcl: Bfcl | None = None

    @classmethod
    def of(
        cls, settings: Any, verifier: Verifier | None = None, verify: bool | None = None
    ) -> "Manner":
        """That of a run's task, by its settings; `verify` is in place of theirs."""
        told = settings if isinstance(settings, Math) else PAPER
        asks = told.verify if verify is None else verify
        opinion = (verifier or Verifier(told.verify_limit)) if asks else None
        own = settings if isinstance(settings, File) else None
        calling = settings if isinstance(settings, Bfcl) else None
        return cls(told, own, opinion, calling)

    def read(self, path: Path, key: str, known: bool) -> Task:
        """The problems of a file, all of them to test on; `known` is one of a benchmark."""
        if self.file is not None and not known:
            return file.read(self.file, str(path), key)
        settings, remedy = self.math, "set task.problem and task.answer"
        if known:
            settings = Math(path=str(path), instruction=self.math.instruction)
            remedy = "a benchmark has the fields problem and answer"
        return MathProblems((), read_problems(settings, str(path), key, remedy), self.verifier)


def known_names() -> list[str]:
    """Suites, each with its benchmarks after it."""
    return [name for suite, members in SUITES.items() for name in (suite, *members)]


def data_folder() -> Path:
    """The folder of prepared files: `METIS_DATA`, or where `metis prepare math` puts them."""
    return Path(os.environ.get("METIS_DATA") or "data/math")


def load(
    names: Sequence[str], folder: Path | None = None, manner: Manner | None = None
) -> list[PromptSet]:
    """The benchmarks of these names, suites and paths, each once, in the order of their naming."""
    wanted = dict.fromkeys(part for name in names for part in SUITES.get(name, (name,)))
    asked = manner or Manner()
    found = [
        function_calling.load(name, folder, asked.bfcl)
        if name in function_calling.TITLES
        else _load(name, folder or data_folder(), asked)
        for name in wanted
    ]
    require_distinct(found)
    return found


def require_distinct(sets: Sequence[PromptSet]) -> None:
    """Refuse sets of one name."""
    names = [each.name for each in sets]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise MetisError(
            f"--suite: two benchmarks are called {min(repeated)!r}; leave one out, or rename it"
        )


def _load(name: str, folder: Path, manner: Manner) -> PromptSet:
    path = _find(name, BENCHMARKS[name], folder) if name in BENCHMARKS else Path(name).expanduser()
    if not path.name.endswith(table.SUFFIXES):
        raise MetisError(
            f"--suite {name!r}: there are {', '.join([OWN, *known_names()])}; or name a file "
            f"({', '.join(table.SUFFIXES)})"
        )
    label = _recognise(path)
    known = BENCHMARKS.get(label)
    key = f"benchmark {label}"
    task = manner.read(path, key, known is not None)
    prompts = tuple(task.heldout())
    if not prompts or (known and len(prompts) != SETS[label].size):
        wanted = f"{SETS[label].size}" if known else "at least 1"
        part = "; a part of it needs a name of its own, or use --limit" if known else ""
        raise MetisError(
            f"{key} = {str(path)!r}: {len(prompts)} different problems, not {wanted}: "
            f"prepare or copy the file again{part}"
        )
    title, measured = (known.title, known.measured) if known else (label, False)
    return PromptSet(label, title, task, prompts, scorer(task), measured, source=source(task))


def _recognise(path: Path) -> str:
    """The benchmark that a file is of, by its name or by what it was prepared as; else its name."""
    stem = path.name.split(".")[0]
    named = {name for name, known in BENCHMARKS.items() if stem in known.stems}
    first = next(read_rows(str(path), f"benchmark {stem}"), {})
    source = str(first.get("data_source", "")).removeprefix("metis/")
    return next(iter(named or BENCHMARKS.keys() & {source}), stem)


def _find(name: str, benchmark: Benchmark, folder: Path) -> Path:
    for stem in benchmark.stems:
        for suffix in table.SUFFIXES:
            path = folder / f"{stem}{suffix}"
            if path.is_file():
                return path
    raise MissingData(
        f"benchmark {name}: no {benchmark.stems[0]}.parquet or .jsonl in {str(folder)!r}: run "
        f"`metis prepare math {name}`, or name its folder with --data or METIS_DATA"
    )
