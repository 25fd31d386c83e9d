"""Mathematics with answers in boxes: what the paper trains on and how it scores.

Problems come from a file that `metis prepare math` wrote (parquet with the columns verl reads), or
from any file with a problem and an answer in every row; rows without an answer, and those that
repeat a problem, are left out. A response earns 1 when its last box holds the reference answer, and
0 otherwise; `metis.tasks.answers` says what counts as equal.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from metis.core import Chat, Prompt
from metis.errors import MetisError, require, require_at_least
from metis.prepare.problems import difficulty
from metis.tasks.answers import score
from metis.tasks.answers.verifier import Verifier, shared
from metis.tasks.base import SingleTurn
from metis.tasks.file import File, read_rows

INSTRUCTION = File.instruction
"""What the paper says of its wording: think step by step, and box the final answer."""


def wrap(problem: str, instruction: str = INSTRUCTION) -> Chat:
    """The chat that asks a problem, in training and in evaluation."""
    return [{"role": "user", "content": f"{problem}\n{instruction}".strip()}]


def reward(response: str, reference: str, verify: bool = True) -> float:
    """The reward of a response: a plain function, for any thread, process or trainer."""
    return score(response, reference, shared() if verify else None)


@dataclass(frozen=True)
class Math:
    """The knobs of the math task.

    path          problems to train on: .parquet, .jsonl or .jsonl.gz
    heldout_path  problems to test on, another such file; empty draws them from `path`
    heldout       how many to test on, drawn by the seed; of heldout_path, 0 is all
    problem       in a plain file, the field that holds the problem
    answer        ... the reference answer
    category      ... the category, where there is one
    difficulty    ... the difficulty, a number or a text that ends in one, where there is one
    instruction   what follows the problem; empty is the prompt of a prepared file, or the usual
                  instruction where the file has none
    verify        ask math-verify about answers whose writing settles nothing; the paper does not
    verify_limit  seconds that this may take; an answer that takes longer is wrong
    """

    path: str = ""
    heldout_path: str = ""
    heldout: int = 200
    problem: str = "problem"
    answer: str = "answer"
    category: str = "category"
    difficulty: str = "difficulty"
    instruction: str = ""
    verify: bool = True
    verify_limit: float = 2.0

    def __post_init__(self) -> None:
        require(bool(self.path), "task.path", self.path, "name a .jsonl(.gz) or .parquet file")
        require_at_least(self, {"heldout": 0 if self.heldout_path else 1}, "task.")
        limit = self.verify_limit
        require(0 < limit < float("inf"), "task.verify_limit", limit, "use seconds above 0")


@dataclass(frozen=True)
class Problem:
    """A row of a file: what is asked, how, and what is right."""

    prompt: Prompt
    chat: Chat
    answer: str


class MathTask:
    """Problems to train and to test on, none of them both."""

    rewards: Literal["binary"] = "binary"

    def __init__(self, settings: Math, seed: int) -> None:
        self.settings = settings
        self.verifier = Verifier(settings.verify_limit) if settings.verify else None
        rng = random.Random(seed)
        training = read_problems(settings, settings.path, "task.path")
        rng.shuffle(training)
        if settings.heldout_path:
            heldout = read_problems(settings, settings.heldout_path, "task.heldout_path")
            rng.shuffle(heldout)
            heldout = heldout[: settings.heldout or None]
            tested = {problem.prompt.id for problem in heldout}
            training = [problem for problem in training if problem.prompt.id not in tested]
        else:
            heldout, training = training[: settings.heldout], training[settings.heldout :]
        if not training or not heldout:
            raise MetisError(
                f"task.heldout = {settings.heldout}: {len(training)} problems are left to train on "
                f"and {len(heldout)} to test on"
            )
        self._training, self._heldout = training, heldout
        self._problems = {problem.prompt.id: problem for problem in training + heldout}

    def training(self) -> Sequence[Prompt]:
        return [problem.prompt for problem in self._training]

    def heldout(self) -> Sequence[Prompt]:
        return [problem.prompt for problem in self._heldout]

    def episode(self, prompt: Prompt) -> SingleTurn:
        problem = self._problems[prompt.id]
        return SingleTurn(problem.chat, lambda text: score(text, problem.answer, self.verifier))


def read_problems(settings: Math, path: str, key: str) -> list[Problem]:
    """The problems of a file that have an answer, each text once."""
    found: dict[str, Problem] = {}
    names: set[str] = set()
    for number, row in enumerate(read_rows(path, key), start=1):
        try:
            problem = _prepared(settings, row) if "reward_model" in row else None
        except (KeyError, TypeError, ValueError):
            raise MetisError(
                f"{key} = {path!r}, row {number}: not as `metis prepare math` writes it; "
                "prepare it again, or name a file with the fields task.problem and task.answer"
            ) from None
        problem = problem or _plain(settings, row, path, key, number)
        if problem.answer.strip() and found.setdefault(problem.prompt.text, problem) is problem:
            if problem.prompt.id in names:
                raise MetisError(f"{key} = {path!r}, row {number}: a second {problem.prompt.id!r}")
            names.add(problem.prompt.id)
    return list(found.values())


def _prepared(settings: Math, row: dict[str, Any]) -> Problem:
    """A row with verl's columns."""
    about = row["extra_info"]
    text, name = str(about["problem"]), str(about["id"])
    chat: Chat = [
        {"role": message["role"], "content": str(message["content"])} for message in row["prompt"]
    ]
    if settings.instruction:
        chat = wrap(text, settings.instruction)
    prompt = Prompt(
        name, text, str(about.get("category") or ""), difficulty(about.get("difficulty"))
    )
    return Problem(prompt, chat, str(row["reward_model"]["ground_truth"]))


def _plain(settings: Math, row: dict[str, Any], path: str, key: str, number: int) -> Problem:
    """A row with the fields that the settings name."""
    for field in (settings.problem, settings.answer):
        if field not in row:
            raise MetisError(
                f"{key} = {path!r}, row {number}: no field {field!r}, only {', '.join(row)}; set "
                "task.problem and task.answer"
            )
    text, category = str(row[settings.problem]), str(row.get(settings.category) or "")
    name = f"{Path(path).name.split('.')[0]}:{row.get('id', number)}"
    prompt = Prompt(name, text, category, difficulty(row.get(settings.difficulty)))
    return Problem(
        prompt, wrap(text, settings.instruction or INSTRUCTION), str(row[settings.answer])
    )


def build(settings: Math, seed: int) -> MathTask:
    """The task for a run's seed."""
    return MathTask(settings, seed)
