"""An evaluation from its settings to its results, resumable batch by batch.

Every answered problem is a row of `answers.jsonl`. What a stopped evaluation left is kept up to the
last whole batch; the rest is answered as if nothing had happened (`plan`).
"""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from metis.core import Chat, Sampling
from metis.errors import MetisError
from metis.evals.benchmarks import ProblemSet
from metis.evals.plan import Limits, batch_seed, batches
from metis.evals.scoring import scores
from metis.runlog import Folder
from metis.tasks.answers import Opinion
from metis.tasks.answers.verifier import Verifier
from metis.tasks.math import Problem


class AnswerFolder(Folder):
    """The folder of an evaluation: `config.json`, `answers.jsonl`, and the results in the end."""

    LOGS = ("answers",)

    def rows(self) -> list[tuple[int, dict[str, Any]]]:
        """The whole rows, each with the length of the log up to its end."""
        found, end = [], 0
        with (self.path / "answers.jsonl").open("rb") as file:
            for line in file:
                end += len(line)
                if not line.endswith(b"\n"):
                    break
                try:
                    found.append((end, json.loads(line)))
                except ValueError:
                    raise _damaged(self.path) from None
        return found


@dataclass(frozen=True)
class Evaluation:
    """What is asked, and how answers are drawn and scored."""

    sets: Sequence[ProblemSet]
    sampling: Sampling
    samples: int
    limits: Limits
    seed: int
    verify: float
    """Seconds that a second opinion may take; 0 asks for none."""

    @property
    def count(self) -> int:
        return sum(len(each.problems) for each in self.sets)

    @property
    def described(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "benchmarks": {
                each.name: {"problems": len(each.problems), "digest": each.digest}
                for each in self.sets
            },
            "samples": self.samples,
            "temperature": self.sampling.temperature,
            "top_p": self.sampling.top_p,
            "max_tokens": self.sampling.max_tokens,
            "verify": bool(self.verify),
            **({"verify_limit": self.verify} if self.verify else {}),
            "seed": self.seed,
            **asdict(self.limits),
        }


@dataclass(frozen=True)
class Answer:
    """What the model said. finish: it came to an end (`stop`), or was cut off (`length`)."""

    text: str
    tokens: int
    finish: str


class Answering(Protocol):
    """A model that answers."""

    def encode(self, chats: Sequence[Chat]) -> list[list[int]]: ...

    def answer(
        self, prompts: Sequence[list[int]], samples: int, seed: int
    ) -> Sequence[Sequence[Answer]]: ...


class Watcher(Protocol):
    """Shows how far an evaluation is."""

    def advance(self, benchmark: ProblemSet, rows: Sequence[Mapping[str, Any]]) -> None: ...


@dataclass(frozen=True)
class Batch:
    """Problems that are answered together."""

    benchmark: ProblemSet
    problems: tuple[Problem, ...]
    prompts: tuple[list[int], ...]
    seed: int


def finished(evaluation: Evaluation, folder: AnswerFolder) -> bool:
    """Whether every problem has its row."""
    return len(folder.rows()) == evaluation.count


def answer_all(
    evaluation: Evaluation, model: Answering, folder: AnswerFolder, watcher: Watcher
) -> None:
    """Answer what is not answered yet; each batch is on disk before the next begins."""
    planned = list(_plan(evaluation, model))
    done = _keep_whole_batches(planned, folder, watcher)
    limit = evaluation.verify
    with Verifier(limit) if limit else contextlib.nullcontext() as opinion:
        for batch in planned[done:]:
            answers = model.answer(batch.prompts, evaluation.samples, batch.seed)
            rows = [
                _row(batch.benchmark, problem, said, opinion)
                for problem, said in zip(batch.problems, answers, strict=True)
            ]
            folder.append("answers", rows)
            watcher.advance(batch.benchmark, rows)


def _plan(evaluation: Evaluation, model: Answering) -> Iterator[Batch]:
    samples, longest = evaluation.samples, evaluation.sampling.max_tokens
    for benchmark in evaluation.sets:
        prompts = model.encode([problem.chat for problem in benchmark.problems])
        lengths = [len(prompt) for prompt in prompts]
        for number, places in enumerate(batches(lengths, longest, samples, evaluation.limits)):
            yield Batch(
                benchmark,
                tuple(benchmark.problems[i] for i in places),
                tuple(prompts[i] for i in places),
                batch_seed(evaluation.seed, benchmark.name, number),
            )


def _keep_whole_batches(planned: Sequence[Batch], folder: AnswerFolder, watcher: Watcher) -> int:
    """Cut the log back to its whole batches; how many these are."""
    rows = folder.rows()
    start, length = 0, 0
    for done, batch in enumerate(planned):
        part = rows[start : start + len(batch.problems)]
        expected = [(batch.benchmark.name, p.prompt.id) for p in batch.problems][: len(part)]
        if [(row.get("benchmark"), row.get("problem")) for _, row in part] != expected:
            raise _damaged(folder.path)
        if len(part) < len(batch.problems):
            folder.cut({"answers": length})
            return done
        start, length = start + len(part), part[-1][0]
        watcher.advance(batch.benchmark, [row for _, row in part])
    return len(planned)


def _row(
    benchmark: ProblemSet, problem: Problem, answers: Sequence[Answer], opinion: Opinion | None
) -> dict[str, Any]:
    return {
        "benchmark": benchmark.name,
        "problem": problem.prompt.id,
        "reference": problem.answer,
        "answers": [
            {
                "scores": scores(said.text, problem.answer, opinion, benchmark.measured),
                "tokens": said.tokens,
                "finish": said.finish,
                "text": said.text,
            }
            for said in answers
        ],
    }


def _damaged(folder: Path) -> MetisError:
    return MetisError(
        f"{str(folder / 'answers.jsonl')!r} is damaged or of another evaluation: restore it, or "
        "name another folder with --out"
    )
