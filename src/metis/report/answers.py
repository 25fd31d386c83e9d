"""Answers of a run to read: a rewarded one, one that was not and a truncated one, as late as there
are, and others of the same kind from earlier steps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from metis.diagnosis.commands import Commands
from metis.diagnosis.missed import contains, ends_with
from metis.report.reproduce import place
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
"""Files of transcripts that are read, the latest; beside the first."""
OTHERS = 2
"""Answers of earlier steps beside the latest: of the first step that is read, and between."""
EVEN = 1e-6
"""Tolerance for rewards of 0 and 1."""
ORDER = ("rewarded", "not rewarded", "truncated")


@dataclass(frozen=True)
class ReportAnswer:
    """An answer with its reward; `turns` are what was said, by role, the prompt first."""

    step: int
    prompt: str
    rollout: int
    reward: float
    tokens: int
    truncated: bool
    turns: tuple[tuple[str, str], ...]
    reference: str = ""

    @property
    def kind(self) -> str:
        """Rewarded, not rewarded or truncated; empty for what is partly rewarded."""
        if self.truncated:
            return "truncated"
        return "rewarded" if self.full else "not rewarded" if self.reward <= EVEN else ""

    @property
    def full(self) -> bool:
        return self.reward >= 1 - EVEN

    @property
    def remark(self) -> str:
        """Of a reward that may be wrong, why; empty otherwise."""
        said = [text for role, text in self.turns if role == "assistant"]
        if self.full and said and contains("\n".join(said), self.reference) is False:
            return " (does not contain what was expected)"
        if self.reward <= EVEN and self.reference and said and ends_with(said[-1], self.reference):
            return " (ends with what was expected)"
        return ""


def section(run: Recorded) -> Iterator[str]:
    """The section of a page; nothing where no answers are kept."""
    chosen = latest(told(run)) or latest(logged(run))
    if not chosen:
        return
    commands = Commands(place(run.folder))
    yield "<h2>Answers</h2>"
    yield (
        f'<p class="soft">The latest of each kind ({escape(", ".join(chosen))}), and earlier ones. '
        f"All of them: <code>{escape(commands.view())}</code></p>"
    )
    yield '<div class="answers">'
    for name, found in chosen.items():
        yield _card(name, found, commands)
    yield "</div>"


def latest(answers: Iterable[ReportAnswer]) -> dict[str, list[ReportAnswer]]:
    """The last answer of each kind, then those of earlier steps, spread over what was read."""
    found: dict[str, dict[int, ReportAnswer]] = {}
    for answer in answers:
        found.setdefault(answer.kind, {})[answer.step] = answer
    return {kind: _spread(found[kind]) for kind in ORDER if kind in found}


def _spread(answers: Mapping[int, ReportAnswer]) -> list[ReportAnswer]:
    steps = sorted(answers, reverse=True)
    parts = ((len(steps) - 1) * part // OTHERS for part in range(OTHERS + 1))
    return [answers[steps[part]] for part in dict.fromkeys(parts)]


def told(run: Recorded) -> Iterator[ReportAnswer]:
    """The answers in the first and the last transcript files."""
    files = transcripts.segments(run.folder, "train")
    read = {file.name: file.stat().st_size for file in files[1:-SEGMENTS]}
    for member in transcripts.members(run.folder, "train", read):
        with transcripts.as_damage(run.folder, member.place):
            answers = list(_told(member))
        yield from answers


def _told(member: transcripts.Member) -> Iterator[ReportAnswer]:
    head = member.head
    for number, row in enumerate(member.rows):
        if row["reward"] is not None:
            asked = row["asked"] if "asked" in row else head["messages"]
            turns = (*_turns(asked, transcripts.examples(asked)), *_turns(row["messages"]))
            yield ReportAnswer(
                int(head["step"]),
                str(head["prompt"]),
                int(row.get("rollout", number)),
                float(row["reward"]),
                int(row["tokens"]),
                bool(row["truncated"]),
                turns,
                str(head.get("reference") or ""),
            )


def _turns(messages: Iterable[Mapping[str, Any]], examples: int = 0) -> Iterator[tuple[str, str]]:
    """Roles and texts; of the turns before the question it is said that they are examples."""
    for number, message in enumerate(messages):
        role = str(message["role"])
        example = number < examples and role != "system"
        yield f"example: {role}" if example else role, str(message.get("content") or "")


def logged(run: Recorded) -> Iterator[ReportAnswer]:
    """The answers that `rollouts.jsonl` of earlier versions has; one at the limit was truncated."""
    engine = run.config.get("engine")
    limit = engine.get("max_tokens") if isinstance(engine, dict) else None
    for row in run_folder.log_rows(run.folder, "rollouts", optional=True):
        kept = zip(row.get("answers", ()), row.get("rewards", ()), row.get("tokens", ()))  # noqa: B905
        for number, (text, reward, tokens) in enumerate(kept):
            turns = (("prompt", str(row.get("text", ""))), ("answer", str(text)))
            about = row["step"], str(row.get("prompt", "")), number
            yield ReportAnswer(*about, reward, tokens, tokens == limit, turns)


def _card(name: str, found: Sequence[ReportAnswer], commands: Commands) -> str:
    """The latest answer of a kind, and folded those of earlier steps."""
    last, *earlier = found
    others = "".join(
        f"<details><summary>Another, of step {answer.step:,}{answer.remark}</summary>"
        f"{_shown(answer, commands)}</details>"
        for answer in earlier
    )
    title = f"{escape(name.capitalize())}, step {last.step:,}{last.remark}"
    return f'<article class="answer"><h3>{title}</h3>{_shown(last, commands)}{others}</article>'


def _shown(answer: ReportAnswer, commands: Commands) -> str:
    facts = f"answer {answer.rollout} · reward {answer.reward:g} · {answer.tokens:,} tokens"
    shown = [*answer.turns, *([("expected", answer.reference)] if answer.reference else [])]
    turns = "".join(turn(role, text) for role, text in shown)
    command = printable(commands.answer(answer.step, answer.prompt, answer.rollout))
    return f'<p class="soft">{escape(facts)}</p>{turns}<pre class="where">{escape(command)}</pre>'


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
