"""Mathematics with answers in boxes: what the paper trains on and how it scores.

Problems come from a file that `metis prepare math` wrote (parquet with the columns verl reads), or
from any file with a problem and an answer in every row; rows without one of them, and those that
repeat a problem, are dropped. Held-out problems are not trained on, however they are typeset
(`metis.data.wording`). The reward is 1 if a response's last box has the reference answer, else 0;
`metis.tasks.math.answers.equality` defines which answers are equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from metis.core import Chat, Prompt
from metis.data import prepared, wording
from metis.data.problems import difficulty, written
from metis.errors import MetisError, MissingData, require, require_at_least
from metis.tasks.base import ProblemRow, ReadRow, SingleTurn
from metis.tasks.division import MOST, divided, usual
from metis.tasks.file import File, read_rows
from metis.tasks.left_out import LeftOut
from metis.tasks.math.answers.equality import score
from metis.tasks.math.answers.verifier import Verifier, shared

INSTRUCTION = File.instruction
"""The paper's description of its wording: think step by step, and box the final answer."""


def wrap(problem: str, instruction: str = INSTRUCTION) -> Chat:
    """The chat that asks a problem, in training and in evaluation."""
    return [{"role": "user", "content": f"{problem}\n{instruction}".strip()}]


def reward(response: str, reference: str, verify: bool = True) -> float:
    """The reward of a response: a plain function, for any thread, process or trainer."""
    return score(response, reference, shared() if verify else None)


@dataclass(frozen=True)
class Math:
    """Settings of the math task.

    path          training problems: .parquet, .jsonl or .jsonl.gz
    heldout_path  held-out problems, another such file; by default drawn from `path`
    heldout       number of held-out problems, drawn by the seed; with heldout_path, 0 is all; null
                  is 200, and at most a fifth of `path`
    problem       in a plain file, the field with the problem
    answer        in a plain file, the field with the reference answer
    category      in a plain file, the field with the category, if any
    difficulty    in a plain file, the field with the difficulty, if any: a number, or a text that
                  ends in one
    instruction   text after the problem; by default the prompt of a prepared file, or the usual
                  instruction if the file has none
    verify        compare answers by value, with math-verify as the last stage; false is the paper's
                  exact comparison of strings
    verify_limit  seconds that math-verify may take; an answer that takes longer is wrong
    """

    path: str = ""
    heldout_path: str = ""
    heldout: int | None = None
    problem: str = "problem"
    answer: str = "answer"
    category: str = "category"
    difficulty: str = "difficulty"
    instruction: str = ""
    verify: bool = True
    verify_limit: float = 2.0

    def __post_init__(self) -> None:
        require(bool(self.path), "task.path", self.path, "name a .jsonl(.gz) or .parquet file")
        if self.heldout is not None:
            require_at_least(self, {"heldout": 0 if self.heldout_path else 1}, "task.")
        limit = self.verify_limit
        require(0 < limit < float("inf"), "task.verify_limit", limit, "use seconds above 0")


@dataclass(frozen=True)
class MathProblem:
    """A row of a file: what is asked, how, and what is right."""

    prompt: Prompt
    chat: Chat
    answer: str

    def called(self, name: str) -> "MathProblem":
        """The problem under another id."""
        return replace(self, prompt=replace(self.prompt, id=name))


class MathProblems:
    """Training and held-out problems; answers are scored by the last box."""

    rewards: Literal["binary"] = "binary"

    def __init__(
        self,
        training: Sequence[MathProblem],
        heldout: Sequence[MathProblem],
        verifier: Verifier | None,
    ) -> None:
        self.verifier = verifier
        self._training, self._heldout = training, heldout
        self._problems = {problem.prompt.id: problem for problem in (*training, *heldout)}

    @property
    def scorer(self) -> str:
        if self.verifier is None:
            return "mathematics: the last box, exact after normalisation"
        return f"mathematics: the last box, by math-verify within {self.verifier.seconds:g} s"

    def scorers(self) -> int | None:
        """Number of answers scored at the same time: more would only wait."""
        return self.verifier.workers if self.verifier else None

    def training(self) -> Sequence[Prompt]:
        return [problem.prompt for problem in self._training]

    def heldout(self) -> Sequence[Prompt]:
        return [problem.prompt for problem in self._heldout]

    def episode(self, prompt: Prompt) -> SingleTurn:
        problem = self._problems[prompt.id]
        return SingleTurn(
            problem.chat, lambda text: score(text, problem.answer, self.verifier), problem.answer
        )


class MathTask(MathProblems):
    """Training and held-out problems, without overlap.

    `settings.instruction` is the instruction in use, also one that the file was prepared with;
    empty for the usual one, and if the prompts end differently.
    """

    def __init__(self, settings: Math, seed: int) -> None:
        left_out = LeftOut(settings.path)
        problems = read_problems(settings, settings.path, "task.path", left_out=left_out)
        self.notices = list(left_out.notices())
        settings = replace(settings, instruction=settings.instruction or _instruction(problems))
        others = None
        if settings.heldout_path:
            left_out = LeftOut(settings.heldout_path)
            others = read_problems(
                settings, settings.heldout_path, "task.heldout_path", left_out=left_out
            )
            self.notices += left_out.notices()
        count = settings.heldout
        if count is None:
            count = usual(len(problems)) if others is None else MOST
        training, heldout = divided(
            problems, others, count, seed, lambda each: wording.key(each.prompt.text)
        )
        names = {problem.prompt.id for problem in training}
        if any(problem.prompt.id in names for problem in heldout):  # two files of one name
            heldout = [problem.called(f"test/{problem.prompt.id}") for problem in heldout]
        self.settings = replace(settings, heldout=count)
        verifier = Verifier(settings.verify_limit) if settings.verify else None
        super().__init__(training, heldout, verifier)


FIELDS = "set task.problem and task.answer"


def read_problems(
    settings: Math,
    path: str,
    key: str,
    remedy: str = FIELDS,
    left_out: LeftOut | None = None,
) -> list[MathProblem]:
    """The problems of a file with an answer, without repeats; `remedy` is for missing fields."""
    left_out = left_out or LeftOut(path)
    if not Path(path).exists():
        raise MissingData(f"{key} = {path!r}: no such file; {prepared.remedy('math', path)}")
    problems: dict[str, MathProblem] = {}
    names: set[str] = set()
    for number, row in enumerate(read_rows(path, key), start=1):
        where = f"{key} = {path!r}, row {number}"
        problem = _problem(settings, path, where, number, row, remedy)
        first = problems.get(problem.prompt.text)
        if left_out.drops(problem.prompt.text, problem.answer, first.answer if first else None):
            continue
        if problem.prompt.id in names:
            raise MetisError(f"{where}: a second {problem.prompt.id!r}; ids must differ")
        names.add(problem.prompt.id)
        problems[problem.prompt.text] = problem
    return list(problems.values())


def rows(settings: Math) -> ReadRow:
    """Reads the rows of the file one by one."""
    path = settings.path

    def read(number: int, row: dict[str, Any]) -> ProblemRow:
        where = f"task.path = {path!r}, row {number}"
        problem = _problem(settings, path, where, number, row, FIELDS)
        return ProblemRow(problem.prompt, problem.chat, problem.answer)

    return read


def _problem(
    settings: Math, path: str, where: str, number: int, row: dict[str, Any], remedy: str
) -> MathProblem:
    try:
        return _read(settings, row, f"{Path(path).name.split('.')[0]}:", number)
    except _NoField as error:
        fields = ", ".join(row) or "none"
        raise MetisError(f"{where}: no field {error}, only {fields}; {remedy}") from None
    except (KeyError, TypeError, ValueError):
        raise MetisError(
            f"{where}: not as `metis prepare math` writes it; prepare it again, or name a file "
            "of plain rows"
        ) from None


class _NoField(Exception):
    """A row lacks this field."""


def _read(settings: Math, row: dict[str, Any], prefix: str, number: int) -> MathProblem:
    """A row with verl's columns, or with the fields that the settings name."""
    if "reward_model" in row:
        about, given = row["extra_info"], row["reward_model"]["ground_truth"]
        text, name = written(about["problem"]), str(about["id"])
        kind, level = about.get("category"), about.get("difficulty")
        chat: Chat = [
            {"role": said["role"], "content": str(said["content"])} for said in row["prompt"]
        ]
    else:
        for field in (settings.problem, settings.answer):
            if field not in row:
                raise _NoField(repr(field))
        text, given = written(row[settings.problem]), row[settings.answer]
        name = prefix + (written(row.get("id")) or str(number))
        kind, level = row.get(settings.category), row.get(settings.difficulty)
        chat = wrap(text)
    if settings.instruction:
        chat = wrap(text, settings.instruction)
    return MathProblem(Prompt(name, text, written(kind), difficulty(level)), chat, written(given))


def _instruction(problems: Sequence[MathProblem]) -> str:
    """The instruction of a prepared file's problems; empty where it is the usual or differs."""
    said = set()
    for problem in problems:
        content = problem.chat[0]["content"] if len(problem.chat) == 1 else ""
        start, line, rest = content.partition(f"{problem.prompt.text}\n")
        said.add(rest if line and not start else "")
    return said.pop() if len(said) == 1 and said != {INSTRUCTION} else ""


def build(settings: Math, seed: int) -> MathTask:
    """The task for a run's seed."""
    return MathTask(settings, seed)
