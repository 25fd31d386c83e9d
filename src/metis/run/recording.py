"""Records the transcripts of rollouts, judgments and validation, and every candidate's text."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

from metis.core import Batch, Chat, Complete, Group, Prompt, Request, Rollout, Transcript
from metis.core.values import Turns
from metis.run.folder import Folder, log_rows, writing
from metis.run.transcripts import Row

Kept = Literal["all", "sample", "none"]
"""All rollouts, the first of each group, or none."""
KEPT = get_args(Kept)

Heard = Sequence[tuple[Request[Any], Any]]
"""Requests with their replies."""
Expected = Callable[[Prompt], str]
"""What a right answer to a prompt is; empty where that is not known."""
LONGEST = 2000
"""Characters of that which are kept."""


def unknown(prompt: Prompt) -> str:
    """The reference answer where a task names none."""
    return ""


def shortened(reference: str) -> str:
    """A reference answer, truncated to the length that is kept."""
    left = len(reference) - LONGEST
    return f"{reference[:LONGEST]}\n… {left:,} more characters" if left > 0 else reference


class Recorder:
    """Writes the transcripts of a folder, and its `prompts.jsonl` if it has one.

    Transcripts are kept below a size in gigabytes; 0 is no limit.
    """

    def __init__(
        self,
        folder: Folder,
        kept: Kept = "all",
        gigabytes: float = 0.0,
        expected: Expected = unknown,
    ) -> None:
        self.folder, self.kept, self.gigabytes = folder, kept, gigabytes
        self.expected = expected
        self._known: set[str] | None = None

    def step(self, step: int, heard: Heard, batch: Batch) -> None:
        """Write a step: all its rollouts, also those not trained on, and what judges wrote."""
        self._prompts(step, heard, batch)
        trained = {id(each) for group in batch.groups for each in group.trajectories}
        said = Counter[str]()
        for request, reply in heard:
            if isinstance(request, Rollout):
                for group in reply:
                    rows = list(_rollouts(group, said[group.prompt.id], trained))
                    said[group.prompt.id] += len(rows)
                    self._write("train", step, group.prompt, group.transcripts, rows)
        for head, row in _judgments(heard, batch):
            self._append("judge", {"step": step, **head}, [row])

    def answers(self, kind: str, step: int, groups: Sequence[Group]) -> None:
        """Write groups that are not trained on."""
        for group in groups:
            self.add(kind, step, group.prompt, group.transcripts)

    def add(
        self,
        kind: str,
        step: int,
        prompt: Prompt,
        transcripts: Sequence[Transcript],
        **beside: str,
    ) -> None:
        """Write the transcript of a prompt's rollouts, with extra fields."""
        rows = [_row(number, each, transcripts[0].asked) for number, each in enumerate(transcripts)]
        self._write(kind, step, prompt, transcripts, rows, beside)

    def thin(self, step: int) -> list[str]:
        """Shrink old transcripts below the limit; returns notices of what was dropped."""
        if not self.gigabytes:
            return []
        with writing(self.folder.path):
            sampled, deleted = self.folder.transcripts.thin(self.gigabytes * 1e9, step)
        done = [
            (sampled, "of the rollouts up to step {} one per group is kept"),
            (deleted, "the transcripts up to step {} were deleted"),
        ]
        limit = f"transcripts_gb = {self.gigabytes:g} is reached"
        return [f"{limit}: {said.format(last)}" for last, said in done if last]

    def _write(
        self,
        kind: str,
        step: int,
        prompt: Prompt,
        transcripts: Sequence[Transcript],
        rows: Sequence[Row],
        beside: Mapping[str, str] = {},
    ) -> None:
        if rows:
            head = {
                "step": step,
                "prompt": prompt.id,
                "category": prompt.category,
                "messages": plain(transcripts[0].asked),
                "n": len(rows),
                **({"reference": reference} if (reference := self._reference(prompt)) else {}),
                **beside,
            }
            self._append(kind, head, rows)

    def _reference(self, prompt: Prompt) -> str:
        """The reference answer, as far as it is kept."""
        return shortened(self.expected(prompt)) if self.kept != "none" else ""

    def _append(self, kind: str, head: Row, rows: Sequence[Row]) -> None:
        if self.kept != "none":
            with writing(self.folder.path):
                self.folder.transcripts.append(
                    kind, head, rows[:1] if self.kept == "sample" else rows
                )

    def _prompts(self, step: int, heard: Heard, batch: Batch) -> None:
        """Log candidates that were not logged before."""
        if self._known is None:
            self._known = {row["prompt"] for row in log_rows(self.folder.path, "prompts")}
        new = {}
        for prompt in _candidates(heard, batch):
            if prompt.id not in self._known:
                new[prompt.id] = prompt
        self._known |= new.keys()
        self.folder.append("prompts", (prompt_row(step, prompt) for prompt in new.values()))


def prompt_row(step: int, prompt: Prompt) -> Row:
    """A row of `prompts.jsonl`."""
    known = prompt.difficulty is not None and math.isfinite(prompt.difficulty)
    return {
        "step": step,
        "prompt": prompt.id,
        "text": prompt.text,
        "category": prompt.category,
        "difficulty": prompt.difficulty if known else None,
    }


def plain(chat: Turns) -> list[Row]:
    """Role and text of each message; content of another form as JSON."""
    return [{"role": str(message["role"]), "content": _text(message)} for message in chat]


def _text(message: Mapping[str, object]) -> str:
    content: Any = message["content"]
    return content if isinstance(content, str) else json.dumps(content, default=str)


def _candidates(heard: Heard, batch: Batch) -> Iterator[Prompt]:
    yield from (decision.prompt for decision in batch.decisions)
    for request, _ in heard:
        if isinstance(request, Rollout):
            yield from request.prompts


def _rollouts(group: Group, first: int, trained: set[int]) -> Iterator[Row]:
    """A row per rollout, numbered from `first`; `trained` are the trajectories of the batch."""
    trajectories = iter(group.trajectories)
    for number, transcript in enumerate(group.transcripts, start=first):
        valid = transcript.reward is not None
        kept = valid and id(next(trajectories, None)) in trained
        yield {**_row(number, transcript, group.transcripts[0].asked), "trained": kept}


def _row(number: int, transcript: Transcript, asked: Turns) -> Row:
    """The row of a rollout; one that was not asked as the head of its group says has `asked`."""
    row = {
        "rollout": number,
        "messages": plain(transcript.said),
        "reward": transcript.reward,
        "parts": dict(transcript.report),
        "tokens": transcript.tokens,
        "truncated": transcript.truncated,
        "failure": transcript.failure,
    }
    return row if transcript.asked == asked else {**row, "asked": plain(transcript.asked)}


def _judgments(heard: Heard, batch: Batch) -> Iterator[tuple[Row, Row]]:
    """The questions to judges about each candidate, and their replies."""
    decisions = {decision.prompt.id: decision for decision in batch.decisions}
    said = Counter[str]()
    for request, reply in heard:
        if not isinstance(request, Complete):
            continue
        about = _about(request.chats, [decision.prompt for decision in batch.decisions])
        for chat, prompt, completion in zip(request.chats, about, reply, strict=True):
            name = prompt.id if prompt else ""
            decision = decisions.get(name)
            tokens = int(completion.trajectory.loss_mask.sum())
            head = {
                "prompt": name,
                "category": prompt.category if prompt else "",
                "messages": plain(chat),
                "n": 1,
            }
            words = [{"role": "assistant", "content": completion.text}]
            yield (
                head,
                {
                    "rollout": said[name],
                    "messages": words if tokens else [],
                    "score": decision.score if decision else None,
                    "failure": decision.failure if decision else None,
                    "tokens": tokens,
                    "truncated": completion.finish == "length",
                },
            )
            said[name] += 1


def _about(chats: Sequence[Chat], candidates: Sequence[Prompt]) -> list[Prompt | None]:
    """The candidate that each chat asks about: its last message has the text.

    Judges ask about the candidates in order, so the search goes on behind the last one found.
    """
    found: list[Prompt | None] = []
    last, size = -1, len(candidates)
    for chat in chats:
        question = _text(chat[-1]) if chat else ""
        places = (place % size for place in range(last + 1, last + 1 + size))
        place = next(
            (p for p in places if candidates[p].text and candidates[p].text in question), None
        )
        found.append(None if place is None else candidates[place])
        last = last if place is None else place
    return found
