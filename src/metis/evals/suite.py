"""An evaluation from its settings to its results, resumable batch by batch.

Every answered problem is a row of `answers.jsonl`, and a group of the transcripts. What a stopped
evaluation left is kept up to the last whole batch; the rest is answered as if nothing had happened
(`plan`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from metis.core import Chat, Prompt, Sampling, Transcript
from metis.core.values import Report
from metis.errors import MetisError
from metis.evals.plan import BatchLimits, batch_seed, batches, copies, in_order
from metis.run.folder import Folder
from metis.run.recording import Recorder
from metis.tasks.base import Task, expected
from metis.tasks.benchmarks.scoring import scores
from metis.tasks.benchmarks.sets import PromptSet, reference


class AnswerFolder(Folder):
    """The folder of an evaluation: `config.json`, `answers.jsonl`, and the results in the end."""

    LOGS = ("answers",)

    def rows(self) -> list[tuple[int, dict[str, Any]]]:
        """The whole rows, each with the length of the log up to its end."""
        rows, end = [], 0
        with (self.path / "answers.jsonl").open("rb") as file:
            for line in file:
                end += len(line)
                if not line.endswith(b"\n"):
                    break
                try:
                    rows.append((end, json.loads(line)))
                except ValueError:
                    raise _damaged(self.path) from None
        return rows


@dataclass(frozen=True)
class Evaluation:
    """The prompt sets and sampling of an evaluation; `rows` are those of a run's own batches."""

    sets: Sequence[PromptSet]
    sampling: Sampling
    samples: int
    limits: BatchLimits
    rows: int
    seed: int

    @property
    def count(self) -> int:
        return sum(len(each.prompts) for each in self.sets)

    @property
    def described(self) -> dict[str, Any]:
        """All of it as JSON."""
        kinds = {each.own for each in self.sets}
        return {
            "benchmarks": {each.name: each.described for each in self.sets},
            "samples": self.samples,
            "temperature": self.sampling.temperature,
            "top_p": self.sampling.top_p,
            "max_tokens": self.sampling.max_tokens,
            "seed": self.seed,
            **(asdict(self.limits) if False in kinds else {}),
            **({"heldout_rows": self.rows} if True in kinds else {}),
        }


@dataclass(frozen=True)
class Answer:
    """The policy's turns of an episode, and what they earned.

    finish: the last turn came to an end (`stop`) or was cut off (`length`), or the episode `failed`
    and earned nothing, which `error` explains. `report` is the reward's, beside its score.
    """

    turns: tuple[str, ...]
    tokens: int
    finish: str
    reward: float
    error: str = ""
    report: Report = field(default_factory=dict)
    transcript: Transcript | None = None

    def beside(self, names: Sequence[str]) -> dict[str, float]:
        """Reported scores; a failed answer has none of them."""
        return {name: float(self.report.get(name, 0.0)) for name in names}


class Answering(Protocol):
    """The interface of a model that answers."""

    def lengths(self, chats: Sequence[Chat]) -> Sequence[int]: ...

    def answer(
        self, task: Task, prompts: Sequence[Prompt], parts: Sequence[int], seed: int
    ) -> Sequence[Sequence[Answer]]: ...


class AnswerWatcher(Protocol):
    """Shows how far an evaluation is."""

    def advance(self, rows: Sequence[Mapping[str, Any]]) -> None: ...


Entry = tuple[PromptSet, int]
"""A prompt by its place in its set."""


@dataclass(frozen=True)
class ProblemBatch:
    """Prompts of one task that are answered together, their samples in parts."""

    entries: Sequence[Entry]
    parts: Sequence[int]
    seed: int

    @property
    def names(self) -> list[tuple[str, str]]:
        return [(each.name, each.prompts[place].id) for each, place in self.entries]

    @property
    def prompts(self) -> list[Prompt]:
        return [each.prompts[place] for each, place in self.entries]


def finished(evaluation: Evaluation, folder: AnswerFolder) -> bool:
    """True where every problem has its row."""
    return len(folder.rows()) == evaluation.count


def answer_all(
    evaluation: Evaluation, model: Answering, folder: AnswerFolder, watcher: AnswerWatcher
) -> None:
    """Answer the remaining problems; each batch is saved before the next begins."""
    planned = list(_plan(evaluation, model))
    done = _keep_whole_batches(planned, folder, watcher)
    names = {name for batch in planned[:done] for name in batch.names}
    folder.transcripts.keep("eval", lambda head: (head["benchmark"], head["prompt"]) in names)
    recorder = Recorder(folder)
    for number, batch in enumerate(planned[done:], start=done):
        task = batch.entries[0][0].task
        answers = model.answer(task, batch.prompts, batch.parts, batch.seed)
        if number == 0:
            _require_reward([answer for said in answers for answer in said])
        for (each, place), said in zip(batch.entries, answers, strict=True):
            transcripts = [answer.transcript for answer in said if answer.transcript]
            right = expected(task, each.prompts[place])
            beside = {"benchmark": each.name, **({"reference": right} if right else {})}
            recorder.add("eval", 0, each.prompts[place], transcripts, **beside)
        rows = [_row(*entry, said) for entry, said in zip(batch.entries, answers, strict=True)]
        folder.append("answers", rows)
        watcher.advance(rows)


def _plan(evaluation: Evaluation, model: Answering) -> Iterator[ProblemBatch]:
    """A run's own test in the batches of training, even where these hold several sets; others by
    length."""
    samples, seed = evaluation.samples, evaluation.seed
    own = [
        (each, place) for each in evaluation.sets if each.own for place in range(len(each.prompts))
    ]
    for number, places in enumerate(in_order(len(own), samples, evaluation.rows)):
        parts = copies(0, samples, BatchLimits(evaluation.rows, 0))
        yield ProblemBatch([own[i] for i in places], parts, batch_seed(seed, "heldout", number))
    longest, limits = evaluation.sampling.max_tokens, evaluation.limits
    for each in evaluation.sets:
        if each.own:
            continue
        lengths = model.lengths([episode.chat for episode in each.openings])
        for number, places in enumerate(batches(lengths, longest, samples, limits)):
            room = max(lengths[place] for place in places) + longest
            parts = copies(room, samples, limits)
            entries = [(each, place) for place in places]
            yield ProblemBatch(entries, parts, batch_seed(seed, each.name, number))


def _keep_whole_batches(
    planned: Sequence[ProblemBatch], folder: AnswerFolder, watcher: AnswerWatcher
) -> int:
    """Truncate the log to its whole batches; returns their number."""
    rows = folder.rows()
    start, length = 0, 0
    for done, batch in enumerate(planned):
        part = rows[start : start + len(batch.entries)]
        expected = batch.names[: len(part)]
        if [(row.get("benchmark"), row.get("problem")) for _, row in part] != expected:
            raise _damaged(folder.path)
        if len(part) < len(batch.entries):
            folder.cut({"answers": length})
            return done
        start, length = start + len(part), part[-1][0]
        watcher.advance([row for _, row in part])
    return len(planned)


def _row(each: PromptSet, place: int, answers: Sequence[Answer]) -> dict[str, Any]:
    right = reference(each.openings[place])
    return {
        "benchmark": each.name,
        "problem": each.prompts[place].id,
        "reference": right,
        "answers": [
            {
                "scores": scores(said.reward, "".join(said.turns[-1:]), right, each.beside)
                | said.beside(each.reported),
                "tokens": said.tokens,
                "finish": said.finish,
                "turns": said.turns,
                **({"error": said.error} if said.error else {}),
            }
            for said in answers
        ],
    }


def _require_reward(answers: Sequence[Answer]) -> None:
    """Refuse to go on with a task that fails all answers from the start."""
    if all(answer.finish == "failed" for answer in answers):
        raise MetisError(
            f"all {len(answers)} answers of the first batch failed: {answers[0].error}; mend the "
            "task, and give the command again"
        )


def _damaged(folder: Path) -> MetisError:
    return MetisError(
        f"{str(folder / 'answers.jsonl')!r} is damaged or of another evaluation: restore it, or "
        "name another folder with --out"
    )
