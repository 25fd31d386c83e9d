"""The code task: programming problems with tests; the reward is the share of tests passed.

Without a file it uses the embedded problems. A file is parquet from `metis prepare code` (with the
columns that verl reads), or JSON lines with a `problem` and `tests` in every row.
"""

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from metis.core import Prompt
from metis.data import prepared, wording
from metis.data.fetched import sha256
from metis.data.problems import difficulty, written
from metis.errors import MetisError, MissingData, require, require_at_least
from metis.tasks.base import Reward, SingleTurn
from metis.tasks.code import embedded, records, sandbox, stored
from metis.tasks.code.extraction import program
from metis.tasks.code.pool import SandboxPool, cores, shared
from metis.tasks.code.problem import Problem
from metis.tasks.code.stored import Entry, Stored
from metis.tasks.code.tests import Io, written_down
from metis.tasks.division import divided
from metis.tasks.file import read_rows


@dataclass(frozen=True)
class Code:
    """Settings of the code task.

    path          training problems: .parquet, .jsonl or .jsonl.gz; by default the embedded set
    heldout_path  held-out problems, another such file; by default drawn from `path`
    heldout       number of held-out problems, drawn by the seed; with heldout_path, 0 is all
    instruction   text after the statement; by default asks for a program or function, as tests need
    checkers      judge outputs by a problem's own checker, if it has one (needs g++); false
                  compares them word by word
    seconds       maximum CPU seconds of a test, for problems that allow more
    workers       programs that run at the same time, each in a process; 0 is one per core
    """

    path: str = ""
    heldout_path: str = ""
    heldout: int = 12
    instruction: str = ""
    checkers: bool = True
    seconds: float = 10.0
    workers: int = 0

    def __post_init__(self) -> None:
        require_at_least(self, {"heldout": 0 if self.heldout_path else 1, "workers": 0}, "task.")
        limit = self.seconds
        require(0 < limit < float("inf"), "task.seconds", limit, "use seconds above 0")


class CodeProblems:
    """Training and held-out problems, answered by programs."""

    rewards: Literal["continuous"] = "continuous"

    def __init__(self, training: Sequence[Entry], heldout: Sequence[Entry], settings: Code) -> None:
        self.settings = settings
        self._training, self._heldout = training, heldout
        self._problems = {problem.id: problem for problem in (*training, *heldout)}

    @property
    def scorer(self) -> str:
        seconds = f"at most {self.settings.seconds:g} CPU seconds a test"
        compared = "" if self.settings.checkers else ", outputs compared word by word"
        return f"programs: the fraction of all tests passed, {seconds}{compared}"

    def training(self) -> Sequence[Prompt]:
        return [problem.prompt for problem in self._training]

    def heldout(self) -> Sequence[Prompt]:
        return [problem.prompt for problem in self._heldout]

    def problem(self, name: str) -> Problem:
        """The problem of a prompt by id, with its tests loaded."""
        return self._problems[name].whole()

    def episode(self, prompt: Prompt) -> SingleTurn:
        return self.asked(self._problems[prompt.id])

    def asked(self, entry: Entry) -> SingleTurn:
        """An episode on any problem, with the limits of the settings."""
        chat = entry.chat(self.settings.instruction)
        return SingleTurn(
            chat,
            lambda text: self._score(text, entry.whole()),
            tests=lambda: written_down(entry.whole().tests),
        )

    def _score(self, response: str, problem: Problem) -> Reward:
        problem = limited(problem, self.settings.seconds)
        problem = problem if self.settings.checkers else without_checkers(problem)
        return reward(response, problem, shared(self.settings.workers))

    def digest(self) -> str:
        """A hash of the held-out problems' tests, equal for equal tests."""
        stored = {entry.path for entry in self._heldout if isinstance(entry, Stored)}
        files = {path: sha256(path) for path in stored}
        parts = [
            f"{files[entry.path]} {entry.row}"
            if isinstance(entry, Stored)
            else records.written(entry.whole())
            for entry in self._heldout
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def scorers(self) -> int:
        """Number of programs scored at the same time; raises SandboxMissing without a sandbox."""
        sandbox.ready()
        return self.settings.workers or cores()


def limited(problem: Problem, seconds: float) -> Problem:
    """The problem with at most this many CPU seconds per test; wall time is scaled alike."""
    limits = problem.limits
    if limits.cpu_seconds <= seconds:
        return problem
    share = seconds / limits.cpu_seconds
    shorter = replace(limits, cpu_seconds=seconds, wall_seconds=limits.wall_seconds * share)
    return replace(problem, limits=shorter)


def without_checkers(problem: Problem) -> Problem:
    """The problem with outputs compared word by word."""
    tests = (replace(t, checker=None) if isinstance(t, Io) else t for t in problem.tests)
    return replace(problem, tests=tuple(tests))


class CodeTask(CodeProblems):
    """Training and held-out problems, without overlap."""

    def __init__(self, settings: Code, seed: int) -> None:
        others = None
        if settings.heldout_path:
            others = read_problems(settings.heldout_path, "task.heldout_path")
        problems = _read(settings.path, "task.path")
        training, heldout = divided(problems, others, settings.heldout, seed, _statement)
        names = {problem.id for problem in training}
        if any(problem.id in names for problem in heldout):  # two files of one name
            heldout = [_renamed(problem, f"test/{problem.id}") for problem in heldout]
        super().__init__(training, heldout, settings)


def _statement(problem: Entry) -> Hashable:
    return wording.key(problem.statement)


def _renamed(problem: Entry, name: str) -> Entry:
    if isinstance(problem, Stored):
        return replace(problem, prompt=replace(problem.prompt, id=name))
    return replace(problem.whole(), id=name)


def _read(path: str, key: str) -> list[Entry]:
    return read_problems(path, key) if path else list(embedded.problems())


def read_problems(path: str, key: str) -> list[Entry]:
    """The problems of a file, without repeated statements."""
    if not Path(path).exists():
        raise MissingData(f"{key} = {path!r}: no such file; {prepared.remedy('code', path)}")
    problems: dict[str, Entry] = {}
    names: set[str] = set()
    for number, problem in enumerate(_problems(path, key), start=1):
        if problem.id in names:
            raise MetisError(
                f"{key} = {path!r}, row {number}: a second {problem.id!r}; ids must differ"
            )
        names.add(problem.id)
        problems.setdefault(problem.statement, problem)
    return list(problems.values())


def _problems(path: str, key: str) -> Iterator[Entry]:
    if path.endswith(".parquet"):
        try:
            yield from stored.read_stored(Path(path))
        except (KeyError, TypeError, IndexError) as error:
            raise MetisError(
                f"{key} = {path!r}: not a file of `metis prepare code` ({error!r}); prepare it "
                "again, or use JSON lines for your own"
            ) from None
        return
    for number, row in enumerate(read_rows(path, key), start=1):
        try:
            yield _problem(row, f"{Path(path).name.split('.')[0]}:", number)
        except MetisError as error:
            raise MetisError(f"{key} = {path!r}, row {number}: {error}") from None
        except (KeyError, TypeError, ValueError, SyntaxError) as error:
            raise MetisError(
                f"{key} = {path!r}, row {number}: not a problem with tests "
                f"({type(error).__name__}: {error}); docs/code.md has the fields of your own"
            ) from None


def _problem(row: dict[str, Any], prefix: str, number: int) -> Problem:
    """A problem from a row of a user's JSON lines."""
    return records.read(
        prefix + (written(row.get("id")) or str(number)),
        str(row["problem"]).strip(),
        row,
        category=written(row.get("category")),
        difficulty=difficulty(row.get("difficulty")),
    )


def build(settings: Code, seed: int) -> CodeTask:
    """The task for a run's seed."""
    return CodeTask(settings, seed)


def reward(response: str, problem: Problem, pool: SandboxPool | None = None) -> Reward:
    """Score a response; the other entries are logged.

    all_passed  1 if all tests passed
    no_code     1 if the response has no program
    timeouts    share of tests that ran out of time
    rescored    number of times that the program ran again after its worker was lost
    """
    code = program(response, problem.functions)
    if not code.strip():
        return {"score": 0.0, "all_passed": 0.0, "no_code": 1.0, "timeouts": 0.0, "rescored": 0.0}
    scored = (pool or shared()).run(problem.program(code), problem.tests, problem.limits)
    outcome = scored.outcome
    return {
        "score": outcome.fraction,
        "all_passed": float(outcome.passed == outcome.total),
        "no_code": 0.0,
        "timeouts": outcome.kinds.get("timeout", 0) / outcome.total,
        "rescored": float(scored.rescored),
    }
