"""The benchmarks: what each is called, where its file lies, and how large it must be.

A benchmark is a name of `BENCHMARKS`, a suite of them, or the path of a file that the math task can
read (a prepared parquet file, or JSON lines with a problem and an answer in every row).
"""

import hashlib
import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from metis.errors import MetisError
from metis.tasks.math import Math, Problem, read_problems

SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz")


@dataclass(frozen=True)
class Benchmark:
    """A published set of problems.

    title     what tables call it
    size      how many problems it has
    stems     the names that its file may have, without the suffix
    measured  its references are measured quantities, so that near numbers are scored beside it
    """

    title: str
    size: int
    stems: tuple[str, ...]
    measured: bool = False


BENCHMARKS = {
    "aime24": Benchmark("AIME24", 30, ("aime24",)),
    "aime25": Benchmark("AIME25", 30, ("aime25",)),
    "math500": Benchmark("MATH500", 500, ("math500",)),
    "minerva": Benchmark("Minerva", 272, ("minerva", "minerva_math"), measured=True),
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
            f"--suite: two benchmarks are called {min(repeated)!r}; rename one of the files"
        )
    return found


def _load(name: str, folder: Path, instruction: str) -> ProblemSet:
    known = BENCHMARKS.get(name)
    path = _find(name, known, folder) if known else Path(name)
    if known is None and not path.name.endswith(SUFFIXES):
        raise MetisError(
            f"--suite {name!r}: there are {', '.join([*SUITES, *BENCHMARKS])}; or name a file "
            f"({', '.join(SUFFIXES)})"
        )
    label = name if known else path.name.split(".")[0]
    settings = Math(path=str(path), instruction=instruction)
    problems = tuple(read_problems(settings, str(path), f"benchmark {label}"))
    if not problems or (known and len(problems) != known.size):
        wanted = f"{known.size}" if known else "at least 1"
        raise MetisError(
            f"benchmark {label} = {str(path)!r}: {len(problems)} different problems, not {wanted}: "
            "prepare or copy the file again"
        )
    title, measured = (known.title, known.measured) if known else (label, False)
    return ProblemSet(label, title, problems, measured)


def _find(name: str, benchmark: Benchmark, folder: Path) -> Path:
    for stem in benchmark.stems:
        for suffix in SUFFIXES:
            path = folder / f"{stem}{suffix}"
            if path.is_file():
                return path
    raise MetisError(
        f"benchmark {name}: no {benchmark.stems[0]}.parquet or .jsonl in {str(folder)!r}: run "
        f"`metis prepare math {name}`, or name its folder with --data or METIS_DATA"
    )
