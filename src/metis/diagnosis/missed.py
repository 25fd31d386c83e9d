"""Groups that earned nothing although their answers have what was expected: a reward that is too
strict, or a format that is not met."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metis.errors import Damaged
from metis.run import transcripts
from metis.run.statistics import group_kind
from metis.run.transcripts import Member

END = 160
"""Characters at the end of an answer in which the reference is looked for: what comes before is
often a wrong attempt, or the question again."""
MOSTLY = 0.5
"""Share of the answers of a group that have the reference. Now and then a wrong answer has it by
chance, but not half of a group."""
PLAIN = re.compile(r"[\w.-]{1,40}")
"""References that every right answer has in it: numbers and words, no formulas or programs."""
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})")
FEWEST = 3
"""Groups, or answers that end with the reference, from which on they are told of."""


@dataclass(frozen=True)
class MissedAnswer:
    """An answer that has the reference at its end, and earned nothing."""

    step: int
    prompt: str
    rollout: int
    text: str
    reference: str
    truncated: bool


@dataclass(frozen=True)
class Missed:
    """The missed answers of the latest steps.

    share   of the groups that they are most of
    ending  those whose last words are the reference, so that they are right, even if by chance
    """

    answers: tuple[MissedAnswer, ...]
    share: float
    ending: tuple[MissedAnswer, ...]


def missed(folder: Path) -> Missed | None:
    """The missed answers of the last transcript file; None if there are too few."""
    answers: list[MissedAnswer] = []
    ending: list[MissedAnswer] = []
    groups = found = 0
    for member in _latest(folder):
        groups += 1
        having = list(_having(member))
        ending += filter(_ends, having)
        if len(having) >= max(1, MOSTLY * len(member.rows)):
            found += 1
            answers += having
    if found < FEWEST and len(ending) < FEWEST:
        return None
    return Missed(tuple(answers or ending), found / groups, tuple(ending))


def having(folder: Path) -> tuple[int, int]:
    """Of the latest answers that ended by themselves: how many have their reference in them, and
    how many there are; none where references are more than a number or a word."""
    found = looked = 0
    for member in _latest(folder):
        reference = str(member.head["reference"]).strip()
        if not PLAIN.fullmatch(reference):
            return 0, 0
        ended = [_last(row) for row in member.rows if not row.get("truncated")]
        pattern = _pattern(reference)
        found += sum(bool(pattern.search(THOUSANDS.sub("", said))) for said in ended)
        looked += len(ended)
    return found, looked


def _ends(answer: MissedAnswer) -> bool:
    """True if the last words of an answer are the reference."""
    *_, last = _pattern(answer.reference).finditer(answer.text)
    return not re.search(r"\w", answer.text[last.end() :])


def _latest(folder: Path) -> Iterator[Member]:
    """The latest groups whose reference is known, as far as they can be read."""
    for file in transcripts.segments(folder, "train")[-1:]:
        with suppress(Damaged):
            for member in transcripts.segment_members(file):
                if member.head.get("reference"):
                    yield member


def _having(member: Member) -> Iterator[MissedAnswer]:
    """The answers of an all-fail group that have its reference; none where its question has it."""
    head, rewards = member.head, [row.get("reward") for row in member.rows]
    reference = str(head["reference"]).strip()
    pattern = _pattern(reference)
    question = " ".join(_text(message) for message in head.get("messages", ()))
    valid = [reward for reward in rewards if reward is not None]
    if group_kind(valid) != "all-fail" or pattern.search(question):
        return
    for row in member.rows:
        text = _last(row)
        if row.get("reward") is not None and pattern.search(text[-END:]):
            cut = bool(row.get("truncated"))
            yield MissedAnswer(head["step"], head["prompt"], row["rollout"], text, reference, cut)


def _last(row: dict[str, Any]) -> str:
    """The last turn of an answer."""
    said = [_text(turn) for turn in row.get("messages", ()) if turn["role"] == "assistant"]
    return said[-1] if said else ""


def _text(message: dict[str, Any]) -> str:
    return str(message.get("content") or "")


def _pattern(reference: str) -> re.Pattern[str]:
    """The reference as a whole word or number, however it is spaced."""
    spaced = r"\s*".join(map(re.escape, reference.split()))
    return re.compile(rf"(?<![\w.-])(?<!\d,){spaced}(?!\w)(?![.,]\d)", re.IGNORECASE)
