"""The benchmarks: what each is called, where its file lies, and how large it must be.

A benchmark is a name of `BENCHMARKS`, a suite of them, or the path of a file that the math task can
read (a prepared parquet file, or JSON lines with a problem and an answer in every row). A file that
is called like a benchmark, or was prepared as one, is that benchmark and must be whole.
"""

import hashlib
import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from metis.errors import MetisError, MissingData
from metis.prepare import table
from metis.prepare.math_sets import SETS
from metis.tasks.file import read_rows
from metis.tasks.math import Math, Problem, read_problems


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

SUITES = {"math": ("aime24", "aime25", "math500", "minerva")}
"""What the paper's tables have side by side, in their order."""


@dataclass(frozen=True)
class ProblemSet:
    """The problems of a benchmark as they are asked."""

    name: str
    title: str
    problems: tuple[Problem, ...]
    measured: bool = False

    @property
    def digest(self) -> str:
        """The same for the same questions and references."""
        asked = [[p.prompt.id, list(p.chat), p.answer] for p in self.problems]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]

    def sample(self, count: int, seed: int) -> "ProblemSet":
        """`count` of the problems, drawn by the seed, in their order; 0 or too many is all."""
        if not 0 < count < len(self.problems):
            return self
        places = sorted(random.Random(seed).sample(range(len(self.problems)), count))
        kept = tuple(self.problems[i] for i in places)
        return ProblemSet(self.name, self.title, kept, self.measured)


def data_folder() -> Path:
    """Where prepared files lie: `METIS_DATA`, or where `metis prepare math` puts them."""
    return Path(os.environ.get("METIS_DATA") or "data/math")


def load(
    names: Sequence[str], folder: Path | None = None, instruction: str = ""
) -> list[ProblemSet]:
    """The benchmarks of these names, suites and paths, each once, in the order of their naming."""
    wanted = dict.fromkeys(part for name in names for part in SUITES.get(name, (name,)))
    found = [_load(name, folder or data_folder(), instruction) for name in wanted]
    repeated = {s.name for s in found if sum(s.name == other.name for other in found) > 1}
    if repeated:
        raise MetisError(
            f"--suite: two benchmarks are called {min(repeated)!r}; leave one out, or rename it"
        )
    return found


def _load(name: str, folder: Path, instruction: str) -> ProblemSet:
    path = _find(name, BENCHMARKS[name], folder) if name in BENCHMARKS else Path(name).expanduser()
    if not path.name.endswith(table.SUFFIXES):
        raise MetisError(
            f"--suite {name!r}: there are {', '.join([*SUITES, *BENCHMARKS])}; or name a file "
            f"({', '.join(table.SUFFIXES)})"
        )
    label = _recognise(path)
    key, remedy = f"benchmark {label}", "a benchmark has the fields problem and answer"
    settings = Math(path=str(path), instruction=instruction)
    problems = tuple(read_problems(settings, str(path), key, remedy))
    known = BENCHMARKS.get(label)
    if not problems or (known and len(problems) != SETS[label].size):
        wanted = f"{SETS[label].size}" if known else "at least 1"
        part = "; a part of it needs a name of its own, or use --limit" if known else ""
        raise MetisError(
            f"{key} = {str(path)!r}: {len(problems)} different problems, not {wanted}: "
            f"prepare or copy the file again{part}"
        )
    title, measured = (known.title, known.measured) if known else (label, False)
    return ProblemSet(label, title, problems, measured)


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
