"""Answers of a run to read: a right one, a wrong one and a truncated one, as late as there are."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from metis.run import folder as run_folder
from metis.run import transcripts
from metis.run.recorded import Recorded
from metis.text import printable

LONG = 600
"""Characters of a turn from which on it is folded."""
MOST = 20_000
"""Characters of a turn that are shown at most."""
FIRST = 160
"""Characters of a folded turn that are always seen."""
SEGMENTS = 2
"""Files of transcripts that are read, the latest."""
EVEN = 1e-6
"""Tolerance for rewards of 0 and 1."""
ORDER = ("right", "wrong", "truncated")


@dataclass(frozen=True)
class Answer:
    """An answer with its reward; `turns` are what was said, by role, the prompt first."""

    step: int
    reward: float
    tokens: int
    truncated: bool
    turns: tuple[tuple[str, str], ...]
    reference: str = ""

    @property
    def kind(self) -> str:
        """Right, wrong or truncated; empty for what is partly right."""
        if self.truncated:
            return "truncated"
        return "right" if self.reward >= 1 - EVEN else "wrong" if self.reward <= EVEN else ""


def section(run: Recorded) -> Iterator[str]:
    """The section of a page; nothing where no answers are kept."""
    chosen = latest(told(run)) or latest(logged(run))
    if not chosen:
        return
    yield "<h2>Answers</h2>"
    yield f'<p class="soft">The latest of each kind: {escape(", ".join(chosen))}.</p>'
    yield '<div class="answers">'
    for name, answer in chosen.items():
        yield _shown(name, answer)
    yield "</div>"


def latest(answers: Iterable[Answer]) -> dict[str, Answer]:
    """The last answer of each kind."""
    found = {answer.kind: answer for answer in answers}
    return {kind: found[kind] for kind in ORDER if kind in found}


def told(run: Recorded) -> Iterator[Answer]:
    """The answers of the last segments of the transcripts."""
    files = transcripts.segments(run.folder, "train")
    read = {file.name: file.stat().st_size for file in files[:-SEGMENTS]}
    for member in transcripts.members(run.folder, "train", read):
        with transcripts.as_damage(run.folder, member.place):
            answers = list(_told(member))
        yield from answers


def _told(member: transcripts.Member) -> Iterator[Answer]:
    head = member.head
    for row in member.rows:
        if row["reward"] is not None:
            asked = row["asked"] if "asked" in row else head["messages"]
            turns = (*_turns(asked), *_turns(row["messages"]))
            truncated = bool(row["truncated"])
            about = int(head["step"]), float(row["reward"]), int(row["tokens"]), truncated, turns
            yield Answer(*about, str(head.get("reference") or ""))


def _turns(messages: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    return ((str(message["role"]), str(message.get("content") or "")) for message in messages)


def logged(run: Recorded) -> Iterator[Answer]:
    """The answers that `rollouts.jsonl` of earlier versions has; one at the limit was truncated."""
    engine = run.config.get("engine")
    limit = engine.get("max_tokens") if isinstance(engine, dict) else None
    for row in run_folder.log_rows(run.folder, "rollouts", optional=True):
        kept = zip(row.get("answers", ()), row.get("rewards", ()), row.get("tokens", ()))  # noqa: B905
        for text, reward, tokens in kept:
            turns = (("prompt", str(row.get("text", ""))), ("answer", str(text)))
            yield Answer(row["step"], reward, tokens, tokens == limit, turns)


def _shown(name: str, answer: Answer) -> str:
    facts = f"step {answer.step:,} · reward {answer.reward:g} · {answer.tokens:,} tokens"
    shown = [*answer.turns, *([("expected", answer.reference)] if answer.reference else [])]
    turns = "".join(turn(role, text) for role, text in shown)
    return (
        f'<article class="answer"><h3>{escape(name.capitalize())}</h3>'
        f'<p class="soft">{escape(facts)}</p>{turns}</article>'
    )


def turn(role: str, text: str) -> str:
    """One turn; a long one is folded, what is beyond the most is left out, and said so."""
    left = len(text) - MOST
    whole = printable(text[:MOST]) + (f"\n… {left:,} more characters" if left > 0 else "")
    name = f'<p class="role">{escape(role)}</p>'
    if len(whole) <= LONG:
        return f"{name}<pre>{escape(whole)}</pre>"
    start = " ".join(whole[:FIRST].split())
    return (
        f"{name}<details><summary>{escape(start)}… ({len(text):,} characters)</summary>"
        f"<pre>{escape(whole)}</pre></details>"
    )
