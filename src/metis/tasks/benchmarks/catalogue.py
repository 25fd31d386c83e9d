"""The benchmarks: their names, files and sizes.

A benchmark is a name of `BENCHMARKS`, a suite of them, or the path of a file with a problem and an
answer in every row, parquet or JSON lines. A file that is called like a benchmark, or was prepared
as one, is that benchmark and must be whole. Of a family, mathematics or code, all are asked alike.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from metis.data import prepared, table
from metis.data.math_sets import SETS
from metis.errors import MetisError, MissingData
from metis.tasks import file
from metis.tasks.base import Task, notices
from metis.tasks.benchmarks import function_calling, programs
from metis.tasks.benchmarks.scoring import ALL_PASSED, NUMERIC
from metis.tasks.benchmarks.sets import PromptSet, scorer, source
from metis.tasks.bfcl import Bfcl
from metis.tasks.code.task import Code, CodeProblems
from metis.tasks.code.task import read_problems as read_programs
from metis.tasks.file import File, read_rows
from metis.tasks.math import Math, MathProblems, read_problems
from metis.tasks.math.answers.verifier import Verifier


@dataclass(frozen=True)
class Benchmark:
    """A published set of problems.

    title   what tables call it
    stems   the names that its file may have, without the suffix
    size    how many problems it has
    beside  the score beside the one that counts, if any: of measured references, or of programs
    family  the task that asks it, and `metis prepare` that fetches it
    """

    title: str
    stems: tuple[str, ...]
    size: int
    beside: str = ""
    family: Literal["math", "code"] = "math"


def _programs(title: str, size: int, *stems: str) -> Benchmark:
    return Benchmark(title, stems, size, ALL_PASSED, "code")


BENCHMARKS = {
    "aime24": Benchmark("AIME24", ("aime24",), SETS["aime24"].size),
    "aime25": Benchmark("AIME25", ("aime25",), SETS["aime25"].size),
    "math500": Benchmark("MATH500", ("math500",), SETS["math500"].size),
    "minerva": Benchmark("Minerva", ("minerva", "minerva_math"), SETS["minerva"].size, NUMERIC),
    "livecodebench": _programs("LCBv6", 1055, "livecodebench"),
    "humaneval": _programs("HumanEval", 164, "humaneval"),
    "mbpp": _programs("MBPP (all 974)", 974, "mbpp"),
    "mbpp-test": _programs("MBPP (500 test)", 500, "mbpp"),
    "bigcodebench": _programs("BCB", 1140, "bigcodebench"),
}

SUITES = {
    "math": ("aime24", "aime25", "math500", "minerva"),
    "code": ("livecodebench", "humaneval", "mbpp", "bigcodebench"),
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
    """How files are asked and scored: benchmarks by their family, others by the task of a run.

    math      settings of mathematics
    own       settings of a run's task=file or task=code; without them a file is mathematics too
    verifier  the second opinion on mathematics, if any
    bfcl      settings of a run's task=bfcl
    """

    math: Math = PAPER
    own: File | Code | None = None
    verifier: Verifier | None = None
    bfcl: Bfcl | None = None

    @classmethod
    def of(
        cls, settings: Any, verifier: Verifier | None = None, verify: bool | None = None
    ) -> "Manner":
        """The asking and scoring of a run's task; `verify` overrides its setting."""
        told = settings if isinstance(settings, Math) else PAPER
        asks = told.verify if verify is None else verify
        opinion = (verifier or Verifier(told.verify_limit)) if asks else None
        own = settings if isinstance(settings, File | Code) else None
        calling = settings if isinstance(settings, Bfcl) else None
        return cls(told, own, opinion, calling)

    @property
    def code(self) -> Code:
        """Settings of programming benchmarks: the limits of a run's, their own instruction."""
        told = self.own if isinstance(self.own, Code) else Code()
        return Code(seconds=told.seconds, workers=told.workers)

    def read(self, path: Path, key: str, published: bool) -> Task:
        """The problems of a file, all to test on; `published` is a benchmark of mathematics."""
        if isinstance(self.own, Code) and not published:
            return CodeProblems((), read_programs(str(path), key), self.own)
        if isinstance(self.own, File) and not published:
            return file.read(self.own, str(path), key)
        settings, remedy = self.math, "set task.problem and task.answer"
        if published:
            settings = Math(path=str(path), instruction=self.math.instruction)
            remedy = "a benchmark has the fields problem and answer"
        return MathProblems((), read_problems(settings, str(path), key, remedy), self.verifier)


def known_names() -> list[str]:
    """Suites, each with its benchmarks after it, then those in none."""
    members = [name for suite, parts in SUITES.items() for name in (suite, *parts)]
    return [*members, *(name for name in BENCHMARKS if name not in members)]


def title(name: str) -> str:
    """What tables call a benchmark."""
    return BENCHMARKS[name].title if name in BENCHMARKS else function_calling.TITLES.get(name, name)


def data_folder(family: str = "math") -> Path:
    """The folder of prepared files: `METIS_DATA`, or where `metis prepare` puts a family's."""
    return Path(os.environ.get("METIS_DATA") or f"data/{family}")


def load(
    names: Sequence[str], folder: Path | None = None, manner: Manner | None = None
) -> list[PromptSet]:
    """The benchmarks of these names, suites and paths, each once, in the order of their naming."""
    wanted = dict.fromkeys(part for name in names for part in SUITES.get(name, (name,)))
    asked = manner or Manner()
    sets = [
        function_calling.load(name, folder, asked.bfcl)
        if name in function_calling.TITLES
        else _load(name, folder, asked)
        for name in wanted
    ]
    require_distinct(sets)
    return sets


def require_distinct(sets: Sequence[PromptSet]) -> None:
    """Refuse sets of one name."""
    names = [each.name for each in sets]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise MetisError(
            f"--suite: two benchmarks are called {min(repeated)!r}; leave one out, or rename it"
        )


def _load(name: str, folder: Path | None, manner: Manner) -> PromptSet:
    path = _find(name, BENCHMARKS[name], folder) if name in BENCHMARKS else Path(name).expanduser()
    if not path.name.endswith(table.SUFFIXES):
        raise MetisError(
            f"--suite {name!r}: there are {', '.join([OWN, *known_names()])}; or name a file "
            f"({', '.join(table.SUFFIXES)})"
        )
    family = next((f for f, names in prepared.FILES.items() if path.stem in names), None)
    if family and not path.exists():
        raise MissingData(f"benchmark {str(path)!r}: no such file; {prepared.remedy(family, path)}")
    label = name if name in BENCHMARKS else _recognise(path)
    benchmark = BENCHMARKS.get(label)
    key = f"benchmark {label}"
    task, count, remark = _read(label, path, key, manner)
    if not count or (benchmark and count != benchmark.size):
        wanted = f"{benchmark.size}" if benchmark else "at least 1"
        part = "; a part of it needs a name of its own, or use --limit" if benchmark else ""
        raise MetisError(
            f"{key} = {str(path)!r}: {count} different problems, not {wanted}: "
            f"prepare or copy the file again{part}"
        )
    return PromptSet(
        label,
        benchmark.title if benchmark else label,
        task,
        tuple(task.heldout()),
        scorer(task),
        benchmark.beside if benchmark else "",
        source=source(task),
        remark=remark,
    )


def _read(label: str, path: Path, key: str, manner: Manner) -> tuple[Task, int, str]:
    """The problems of a file, how many it has, and a remark on those left out."""
    benchmark = BENCHMARKS.get(label)
    if benchmark and benchmark.family == "code":
        return programs.read_programs(label, path, key, manner.code)
    task = manner.read(path, key, benchmark is not None)
    return task, len(task.heldout()), "; ".join(notices(task))


def _recognise(path: Path) -> str:
    """The benchmark that a file is of, by its name or by what it was prepared as; else its name."""
    stem = path.name.split(".")[0]
    named = [name for name, benchmark in BENCHMARKS.items() if stem in benchmark.stems]
    first = next(read_rows(str(path), f"benchmark {stem}", ("data_source",)), {})
    source = str(first.get("data_source", "")).removeprefix("metis/")
    return next(iter(named or BENCHMARKS.keys() & {source}), stem)


def _find(name: str, benchmark: Benchmark, given: Path | None) -> Path:
    folder = given or data_folder(benchmark.family)
    for stem in benchmark.stems:
        for suffix in table.SUFFIXES:
            path = folder / f"{stem}{suffix}"
            if path.is_file():
                return path
    raise MissingData(
        f"benchmark {name}: no {benchmark.stems[0]}.parquet or .jsonl in {str(folder)!r}: run "
        f"`{prepared.command(benchmark.family, folder, benchmark.stems[0])}`, or name its folder "
        "with --data or METIS_DATA"
    )
