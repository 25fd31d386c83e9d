"""Rolls out a random sample of a training set, saved round by round, and times a step."""

import json
import random
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import ClassVar, Protocol, Self

from pydantic import TypeAdapter, ValidationError
from rich import progress
from rich.console import Console

from metis import files
from metis.config import Config
from metis.core import Curriculum, Progress, Prompt, Rollout
from metis.core.drive import drive
from metis.core.pool import Pool
from metis.core.requests import Reply, Request
from metis.loop import Trainable
from metis.report.tables import duration
from metis.run.folder import Folder, read_log
from metis.run.meter import Meter
from metis.run.recording import Expected, Kept, Recorder, unknown
from metis.run.records import group_columns
from metis.run.waiting import Heartbeat
from metis.settings.sections import curriculum_of
from metis.surveys.facts import PromptOutcome

STEPS = 2
"""Steps that are timed, of which the first warms up."""
FILE = "step_seconds.json"
WAIT = 30.0
"""Seconds without a line after which there is one."""


class Playable(Protocol):
    """An engine that can be surveyed: it answers requests, up to `rows` rollouts at once.

    `reseed` seeds all sampling from there on. `notices` are messages to the user.
    """

    @property
    def rows(self) -> int: ...

    @property
    def notices(self) -> list[str]: ...

    def answer(self, request: Request[Reply]) -> Reply: ...

    def reseed(self, seed: int) -> None: ...

    def close(self) -> None: ...


class SurveyView:
    """Counts rollouts, or others, of `total`; the first part that is saved gives an estimate."""

    def __init__(
        self,
        console: Console,
        total: int,
        clock: Callable[[], float] = time.monotonic,
        noun: str = "rollouts",
    ) -> None:
        self.console, self.total, self.clock, self.noun = console, total, clock, noun
        self.began = self.printed = clock()
        self.saved = self.before = self.played = 0
        self.bars = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self.task = self.bars.add_task(noun, total=total)
        self.heartbeat = Heartbeat(self.beat)

    def __enter__(self) -> Self:
        self.bars.start()
        self.heartbeat.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.heartbeat.__exit__()
        self.bars.stop()

    def resume(self, done: int) -> None:
        """Start from what an earlier call has saved."""
        self.before = done
        self.save(done)

    def save(self, done: int) -> None:
        """Report how many rollouts are saved."""
        first = self.saved <= self.before < done < self.total
        self.saved, self.played = done, 0
        self.bars.update(self.task, completed=done)
        if first:
            self._print()

    def play(self, played: int) -> None:
        """Report how many rollouts have ended since the last save; thread-safe."""
        self.played = played
        self.bars.update(self.task, completed=self.saved + played)

    def beat(self) -> None:
        if self.clock() - self.printed >= WAIT:
            self._print()

    def say(self, what: str) -> None:
        """Name what follows the rollouts."""
        self.bars.update(self.task, description=what)
        if not self.console.is_terminal:
            self.console.print(what)

    def _print(self) -> None:
        self.printed = self.clock()
        if self.console.is_terminal:
            return
        done, spent = self.saved + self.played, self.printed - self.began
        line = f"{done:,} of {self.total:,} {self.noun}"
        if self.saved > self.before:
            pace = spent / (done - self.before)
            line += f" · about {duration(pace * (self.total - done))} left"
        self.console.print(line)


class SurveyFolder(Folder):
    """The folder of a survey: one row a prompt."""

    LOGS: ClassVar = ("outcomes",)

    def resume(self, count: int, size: int) -> list[PromptOutcome]:
        """The outcomes of whole rounds of `size` prompts; anything after them is truncated."""
        lines = (self.path / "outcomes.jsonl").read_bytes().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]
        if len(whole) < count:
            whole = whole[: len(whole) // size * size]
        self.cut({"outcomes": sum(map(len, whole))})
        rows = read_log(self.path, "outcomes")
        done = {row["prompt"] for row in rows}
        self.transcripts.keep("survey", lambda head: head["prompt"] in done)
        return [PromptOutcome.of(row) for row in rows]


def sampled(pool: Pool, count: int, seed: int) -> list[Prompt]:
    """Training prompts sampled without replacement; all if there are no more."""
    return random.Random(seed).sample(list(pool.prompts), min(count, len(pool)))


def collect(
    engine: Playable,
    prompts: Sequence[Prompt],
    group: int,
    seed: int,
    folder: SurveyFolder,
    view: SurveyView,
    kept: Kept = "all",
    expected: Expected = unknown,
) -> list[PromptOutcome]:
    """The outcomes of all prompts, in rounds of as many as the engine takes at once.

    Every round is saved, with what was said; those in the folder are not played again.
    """
    size = max(1, engine.rows // group)
    outcomes = folder.resume(len(prompts), size)
    recorder = Recorder(folder, kept, expected=expected)
    view.resume(group * len(outcomes))
    for start in range(len(outcomes), len(prompts), size):
        engine.reseed(zlib.crc32(f"{seed}/{start}".encode()))
        with _counting(engine, view):
            groups = engine.answer(Rollout(prompts[start : start + size], group))
        recorder.answers("survey", 0, groups)
        played = [{**group_columns(group), "cut_off": group.cut_off} for group in groups]
        folder.append("outcomes", played)
        outcomes += [PromptOutcome.of(row) for row in played]
        view.save(group * len(outcomes))
    return outcomes


def _counting(engine: Playable, view: SurveyView) -> AbstractContextManager[None]:
    """Report every finished rollout to the view, if the engine can."""
    counting = getattr(engine, "counting", None)
    return nullcontext() if counting is None else counting(view.play)


def judging(settings: Config) -> Curriculum:
    """METIS with the settings given, or its defaults if another curriculum is set."""
    if settings.curriculum_name == "metis":
        return settings.curriculum
    return curriculum_of("metis", settings.training.batch, settings.training.group)


def _measured_before(path: Path) -> dict[str, float]:
    """The saved seconds of a step; none if the file is missing or damaged."""
    try:
        return TypeAdapter(dict[str, float]).validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return {}


def step_seconds(
    engine: Trainable, pool: Pool, curriculum: Curriculum, folder: Path
) -> dict[str, float]:
    """Seconds by phase of a training step, the second of two; a saved measurement is reused."""
    path = folder / FILE
    if measured := _measured_before(path):
        return measured
    seconds: dict[str, float] = {}
    for step in range(STEPS):
        meter = Meter(engine)
        planned = drive(curriculum.step(pool, Progress(step, policy=step)), meter)
        if planned.groups:
            with meter.phase("update"):
                engine.update(planned)
        seconds = meter.seconds
    with files.atomic(path) as file:
        file.write(json.dumps(seconds).encode())
    return seconds
