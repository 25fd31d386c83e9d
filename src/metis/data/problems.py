"""Problems from published copies of a data set: text, answers, category.

Copies name their fields differently, wrap problems in instructions and repeat them. Here a problem
is what is left: its bare text once, with every different answer that was given to it.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metis.data import table, wording
from metis.errors import MetisError
from metis.text import last_box

CHAT = "prompt.0.content"
FIELDS = {
    "problem": (
        "extra_info.problem",
        "problem",
        "question",
        "Problem",
        CHAT,
        "prompt",
    ),
    "answer": ("answer", "Answer", "reward_model.ground_truth"),
    "solution": ("solution", "Solution"),
    "category": ("type", "subject", "extra_info.category"),
    "difficulty": ("level", "extra_info.difficulty"),
}
"""The parts of a row, and the fields in which copies have them; the first one there counts."""

PREFIX = (
    "Solve the following math problem step by step. The last line of your response should be of "
    "the form Answer: $Answer (without quotes) where $Answer is the answer to the problem."
)
SUFFIX = 'Remember to put your answer on its own line after "Answer:".'
"""The text that DAPO-Math-17k puts around a problem. It asks for an answer without a box."""

KEYS: dict[str, Callable[[str], Any]] = {
    "text": lambda text: text,
    "wording": wording.key,
}
"""Equality of two problems: by their text, or by its wording."""


_BRACED_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BARE_BOX = re.compile(r"\\(?:boxed|fbox)\s*([^\s{$][^$]*)(?=\$)")


@dataclass
class RawProblem:
    """A problem and all different answers given to it, the first given first."""

    text: str
    category: str
    difficulty: float | None
    answers: list[str] = field(default_factory=list)


@dataclass
class Collection:
    """The problems of a source in their order, and what was seen on the way."""

    rows: int
    unwrapped: int | None
    """Rows whose wrapper was taken off; None where the source has no chats."""
    problems: list[RawProblem]


def read(paths: Iterable[Path], same: str) -> Collection:
    """All problems of some files, without duplicates by the key `same`, one of KEYS."""
    seen = Collection(0, None, [])
    grouped: dict[Any, RawProblem] = {}
    wrapped: dict[tuple[Any, ...], bool] = {}  # by what was read: files repeat rows a hundred times
    for path in paths:
        names = _choose(path)
        for values in table.values(path, list(names.values())):
            seen.rows += 1
            if values not in wrapped:
                row = dict(zip(names, values, strict=True))
                if not isinstance(row["problem"], str):
                    raise MetisError(
                        f"{str(path)!r}: {names['problem']} of row {seen.rows} is "
                        f"{row['problem']!r}, not a text; another revision of the file?"
                    )
                text = unwrap(row["problem"])
                wrapped[values] = text != row["problem"].strip()
                _add(grouped, KEYS[same](text), text, row)
            if names["problem"] == CHAT:
                seen.unwrapped = (seen.unwrapped or 0) + wrapped[values]
    seen.problems = list(grouped.values())
    return seen


def _add(grouped: dict[Any, RawProblem], key: Any, text: str, row: dict[str, Any]) -> None:
    new = RawProblem(text, written(row["category"]), difficulty(row["difficulty"]))
    problem = grouped.setdefault(key, new)
    given = answer(row["answer"], row["solution"])
    if given and given not in problem.answers:
        problem.answers.append(given)


def _choose(path: Path) -> dict[str, str]:
    """The field of a file for each thing wanted; a file without a problem or answer is refused."""
    fields = table.fields(path)
    chosen = {
        wanted: next((name for name in names if name in fields), "")
        for wanted, names in FIELDS.items()
    }
    if not fields:
        raise MetisError(f"{str(path)!r} is empty: fetch it again, or name another file")
    shown = ", ".join(fields)
    if not chosen["problem"]:
        raise MetisError(
            f"{str(path)!r} has no field for problems, such as {_some('problem')}; its fields are "
            f"{shown}: another file, or another revision of it?"
        )
    if not chosen["answer"] and not chosen["solution"]:
        raise MetisError(
            f"{str(path)!r} has no field for answers, such as {_some('answer')}; its fields are "
            f"{shown}: another file, or another revision of it?"
        )
    return chosen


def _some(wanted: str) -> str:
    return " or ".join(repr(name) for name in FIELDS[wanted][:3])


def unwrap(text: str) -> str:
    """The problem without DAPO's instructions and surrounding space."""
    return text.strip().removeprefix(PREFIX).removesuffix(SUFFIX).strip()


def answer(given: Any, solution: Any) -> str:
    """The reference answer: as given, or in the solution's last box; empty where there is none.

    Integers lose leading zeros, so that an answer of `025` is right when it says 25.
    """
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    text = written(given) or _boxed(written(solution))
    return re.sub(r"^(-?)0+(?=\d+$)", r"\1", text, flags=re.ASCII)


def _boxed(solution: str) -> str:
    """The content of the last box of a solution; some are written `\\fbox{2}` or `\\boxed 2`."""
    braced = _BARE_BOX.sub(r"\\boxed{\1}", _BRACED_BOX.sub(r"\\boxed{", solution))
    return (last_box(braced) or "").strip()


def difficulty(level: Any) -> float | None:
    """The number in a level such as 3 or `Level 3`; None where there is none."""
    number = re.search(r"\d+(?:\.\d+)?", written(level), re.ASCII)
    return float(number[0]) if number else None


def written(value: Any) -> str:
    """A value as text without surrounding space; empty where there is none."""
    return "" if value is None else str(value).strip()
