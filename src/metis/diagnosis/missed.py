"""Rewards beside what was expected: groups that earned nothing although their answers have it, and
rewarded answers that do not. The reward is too strict or too lenient, or a format is not met."""

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
from metis.tasks.file import MATCHES

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


CODE = "```"
"""A code fence: the text of a program does not contain what it computes."""


@dataclass(frozen=True)
class KeptAnswer:
    """An answer of the transcripts, with its reference."""

    step: int
    prompt: str
    rollout: int
    text: str
    reference: str
    truncated: bool

    @property
    def exact(self) -> bool:
        """True if it ends with the reference to the letter."""
        said = self.text.rstrip()
        return said.endswith(self.reference) and ends_with(said, self.reference)


@dataclass(frozen=True)
class Missed:
    """Answers of the latest steps that have the reference at their end, and earned nothing.

    share   of the groups that they are most of
    ending  those whose last words are the reference, so that they are right, even if by chance
    """

    answers: tuple[KeptAnswer, ...]
    share: float
    ending: tuple[KeptAnswer, ...]


@dataclass(frozen=True)
class Passed:
    """How many answers of the latest steps were rewarded, and those without their reference."""

    rewarded: int
    without: tuple[KeptAnswer, ...]


def missed(folder: Path) -> Missed | None:
    """The missed answers of the last transcript file; None if there are too few."""
    answers: list[KeptAnswer] = []
    ending: list[KeptAnswer] = []
    groups = found = 0
    for member in _latest(folder):
        groups += 1
        having = list(_having(member))
        ending += (each for each in having if ends_with(each.text, each.reference))
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
        found += sum(_has(said, reference) for said in ended)
        looked += len(ended)
    return found, looked


def passed(folder: Path) -> Passed | None:
    """The latest rewarded answers; None where rewards are not 0 and 1 alone, or references are
    more than a number or a word."""
    rewarded, without = 0, list[KeptAnswer]()
    for member in _latest(folder):
        reference = str(member.head["reference"]).strip()
        rewards = {row.get("reward") for row in member.rows}
        if not PLAIN.fullmatch(reference) or not rewards <= {0, 1, None}:
            return None
        for row in member.rows:
            said = "\n".join(_turns(row))
            has = contains(said, reference) if row.get("reward") == 1 else None
            rewarded += has is not None
            without += [_kept(member, row, said)] if has is False else []
    return Passed(rewarded, tuple(without))


def contains(text: str, reference: str) -> bool | None:
    """True if the reference is anywhere in a text, or its last number is the same; None where that
    says nothing: of no text, of a program, or of more than a number or a word."""
    if not PLAIN.fullmatch(reference) or not text.strip() or CODE in text:
        return None
    return _has(text, reference) or any(same(text, reference) for same in MATCHES.values())


def ends_with(text: str, reference: str) -> bool:
    """True if the last words of a text are the reference."""
    *_, last = [None, *_pattern(reference).finditer(text)]
    return last is not None and not re.search(r"\w", text[last.end() :])


def _has(text: str, reference: str) -> bool:
    return bool(_pattern(reference).search(THOUSANDS.sub("", text)))


def _latest(folder: Path) -> Iterator[Member]:
    """The latest groups whose reference is known, as far as they can be read."""
    for file in transcripts.segments(folder, "train")[-1:]:
        with suppress(Damaged):
            for member in transcripts.segment_members(file):
                if member.head.get("reference"):
                    yield member


def _having(member: Member) -> Iterator[KeptAnswer]:
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
            yield _kept(member, row, text)


def _kept(member: Member, row: dict[str, Any], text: str) -> KeptAnswer:
    head = member.head
    reference, cut = str(head["reference"]).strip(), bool(row.get("truncated"))
    return KeptAnswer(head["step"], head["prompt"], row["rollout"], text, reference, cut)


def _last(row: dict[str, Any]) -> str:
    """The last turn of an answer."""
    return next(reversed(_turns(row)), "")


def _turns(row: dict[str, Any]) -> list[str]:
    """What the model said, turn by turn."""
    return [_text(turn) for turn in row.get("messages", ()) if turn["role"] == "assistant"]


def _text(message: dict[str, Any]) -> str:
    return str(message.get("content") or "")


def _pattern(reference: str) -> re.Pattern[str]:
    """The reference as a whole word or number, however it is spaced."""
    spaced = r"\s*".join(map(re.escape, reference.split()))
    return re.compile(rf"(?<![\w.-])(?<!\d,){spaced}(?!\w)(?![.,]\d)", re.IGNORECASE)
