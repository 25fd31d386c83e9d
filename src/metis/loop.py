"""The training loop of engines that run in this process: plan, update, log, checkpoint."""

import gc
import math
import signal as signals
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from metis.config import Config, generation
from metis.core import Batch, Curriculum
from metis.core.pool import Pool
from metis.curricula.registry import check_pool, pool_notice
from metis.engines import ENGINES
from metis.engines.model_files import look_for
from metis.errors import MetisError, first_line
from metis.run import composition, loggers, sources
from metis.run.budget import Account, Budget
from metis.run.first_validation import FirstValidation
from metis.run.folder import (
    RunFolder,
    check_run_folder,
    checkpoints,
    incomplete,
    latest,
    read_log,
    resume_remark,
)
from metis.run.loggers import MetricLogger, ShownAnswer, sampled_answers
from metis.run.manifest import completion_message, describe_changes
from metis.run.meter import Meter, TimedEngine
from metis.run.notices import Standstill, Truncations
from metis.run.recording import Recorder
from metis.run.records import exemplar_rows, judgment_rows, rollout_rows
from metis.run.step import plan_step, step_metrics
from metis.run.waiting import Count, Hear, Say, no_progress, unheard
from metis.tasks.base import expected
from metis.tasks.benchmarks.sets import PromptSet
from metis.tasks.benchmarks.validation import benchmark


class Trainable(TimedEngine, Protocol):
    """An engine that the loop can train: it answers requests, updates, validates and saves.

    `evaluate` returns the reward of each held-out prompt, None where it failed, and reports how
    many are done; `first` has rewards that need no answer, and saves others; `heard` is called
    with the groups of each round, before they are saved. `reseed` seeds all sampling from there on.
    `notices` are pending messages to the user; the loop drains the list.
    """

    version: int

    @property
    def notices(self) -> list[str]: ...

    def evaluate(
        self,
        count: Count = no_progress,
        first: FirstValidation | None = None,
        heard: Hear = unheard,
    ) -> Sequence[tuple[str, float | None]]: ...

    def update(self, batch: Batch) -> Mapping[str, float]: ...

    def reseed(self, seed: int) -> None: ...

    def close(self) -> None: ...

    def save(self, folder: Path) -> None: ...

    def load(self, folder: Path) -> None: ...


INTERRUPTED = 130
"""Exit code of a run that Ctrl-C ended."""

Numbers = Mapping[str, float]
Log = Sequence[Numbers]
OnStep = Callable[[int, Numbers], object]
"""Called after each step with its number and metrics; step 0 is the validation before training."""


class View(Protocol):
    """Shows a run to the user."""

    def resume(self, step: int, fraction: float, metrics: Log, timings: Log) -> None: ...

    def phase(self, name: str) -> None: ...

    def count(self, done: int, total: int) -> None: ...

    def step(self, step: int, fraction: float, metrics: Numbers, seconds: Numbers) -> None: ...

    def notice(self, step: int, text: str) -> None: ...

    def stopping(self) -> None: ...


@dataclass
class Run:
    """A run in memory: everything that a checkpoint restores."""

    config: Config
    engine: Trainable
    pool: Pool
    curriculum: Curriculum
    account: Account
    truncations: Truncations = field(init=False)
    standstill: Standstill = field(default_factory=Standstill)

    def __post_init__(self) -> None:
        limit = getattr(self.config.engine, "max_tokens", None)
        self.truncations = Truncations(f"engine.max_tokens = {limit}")

    @classmethod
    def build(cls, config: Config, say: Say = print) -> "Run":
        """Build engine, training set and curriculum; `say` prints a line before slow parts."""
        training, build = config.training, ENGINES[config.engine_name].build
        pool = config.pool()
        assert pool is not None
        check_pool(pool, config.curriculum, training.batch)
        engine = build(config.engine, config.task, training.seed, training.data, say)
        return cls(config, engine, pool, config.curriculum, Account(config.training.budget))

    def state_dict(self) -> dict[str, Any]:
        return {
            "curriculum": self.curriculum.state_dict(),
            "pool": self.pool.state_dict(),
            **self.account.state_dict(),
        }

    def restore(self, saved: dict[str, Any], folder: Path) -> None:
        self.account.step = saved["step"]
        self.account.load_state_dict(saved)
        self.curriculum.load_state_dict(saved["curriculum"])
        self.pool.load_state_dict(saved["pool"])
        try:
            self.engine.load(folder)
        except OSError as error:
            raise incomplete(folder, error) from None


def foreseen(config: Config, out: Path) -> Iterator[str]:
    """Run the checks of a start that need no model; yields its remarks."""
    if (pool := config.pool()) is not None:
        check_pool(pool, config.curriculum, config.training.batch)
        yield from pool_notice(pool, config.curriculum, config.training.batch)
    model = getattr(config.engine, "model", None)
    if model is not None and (unknown := look_for(model)):
        yield unknown
    step = _step_of(out)
    if there := resume_remark(out, config.resolved, config.may_change, step):
        done = finished(out, config.training.budget)
        yield from () if done else sources.check_sources(out, config.resolved, step > 0)
        yield completion_message(out, step, config.training.steps) if done else there


def command(config: Config, out: Path) -> str:
    """Empty: this process trains."""
    return ""


def _step_of(out: Path) -> int:
    return max((step for step, _ in checkpoints(out)), default=0)


def finished(out: Path, budget: Budget) -> bool:
    """True if the latest checkpoint of a run folder has used up the budget."""
    checkpoint = latest(out)
    if checkpoint is None:
        return False
    saved, _ = checkpoint
    return Account.of(budget, saved["step"], saved).fraction >= 1


def conduct(
    config: Config,
    out: Path,
    view: AbstractContextManager[View],
    on_step: OnStep | None = None,
    say: Say = print,
) -> int:
    """Build a run and train it in its folder; returns an exit code."""
    config = generation.continued(config, out)
    check_run_folder(out, config.resolved, config.may_change)
    step = _step_of(out)
    if finished(out, config.training.budget):
        say(completion_message(out, step, config.training.steps))
        return 0
    changed = sources.check_sources(out, config.resolved, step > 0)
    config = generation.chosen(config, say)
    run = Run.build(config, say)
    gc.freeze()  # objects loaded so far live on: the collector need not scan them at every step
    try:
        with RunFolder.open(out, config.resolved, config.may_change, step) as folder, view as shown:
            sources.write_sources(out, config.resolved)
            for text in changed:
                shown.notice(step, text)
            done = training_loop(run, folder, shown, on_step)
        if not done:
            say(f"stopped after step {run.account.step}; the same command resumes from there")
        return 0 if done else INTERRUPTED
    finally:
        gc.unfreeze()
        run.engine.close()


def training_loop(run: Run, folder: RunFolder, view: View, on_step: OnStep | None = None) -> bool:
    """Train to the end, from the latest checkpoint if there is one; False when interrupted."""
    settings, account = run.config.training, run.account
    with loggers.opened_loggers(settings.loggers, folder.path, run.config.resolved) as outlets:
        composition.write_composition(folder.path, run.pool.prompts)
        kept = settings.transcripts, settings.transcripts_gb
        recorder = Recorder(folder, *kept, partial(expected, run.config.task))
        saved = folder.resume()
        if saved is None:
            begun = folder.path / "timings.jsonl"
            if begun.exists() and begun.stat().st_size:
                view.notice(0, "no checkpoint was made yet: starting over")
            for text in pool_notice(run.pool, run.curriculum, settings.batch):
                view.notice(0, text)
            folder.cut({})
            folder.transcripts.cut(-1 if run.config.task is None else 0)
            metrics: Numbers = evaluate(run, folder, view, recorder)
            _tell(run, folder, view)
            folder.append("metrics", [{"step": 0, **metrics}])
            _show(outlets, 0, metrics, view)
            view.step(0, 0.0, metrics, {})
            if on_step:
                on_step(0, metrics)
        else:
            run.restore(*saved)
            folder.cut(saved[0]["logs"])
            folder.transcripts.cut(account.step)
            if account.improved:  # the run may have been stopped before this one was kept
                folder.keep_best(account.step)
            past = [read_log(folder.path, log) for log in ("metrics", "timings")]
            for row in past[0]:
                run.standstill.add(row["step"], row)
            view.resume(account.step, account.fraction, *past)
        if folder.changes:
            view.notice(account.step, f"from here on {describe_changes(folder.changes)}")
        with _interruptible(view.stopping) as interrupted:
            while account.fraction < 1 and not interrupted():
                metrics, seconds, answers = _step(run, folder, view, recorder)
                _show(outlets, account.step, {**metrics, **_named(seconds, account)}, view, answers)
                view.step(account.step, account.fraction, metrics, seconds)
                last = account.fraction >= 1 or interrupted()
                if account.improved or last or account.step % settings.checkpoints.every == 0:
                    view.phase("save")
                    _tell(run, folder, view, *recorder.thin(account.step))
                    keep = settings.checkpoints.keep
                    folder.checkpoint(account.step, run.state_dict(), run.engine.save, keep)
                if account.improved:
                    folder.keep_best(account.step)
                if on_step:
                    on_step(account.step, metrics)
    return account.fraction >= 1


def _named(seconds: Numbers, account: Account) -> Numbers:
    """The seconds of a step by phase, and of the run so far, as metrics for the loggers."""
    timings = {**seconds, "elapsed": account.elapsed}
    return {f"seconds/{phase}": value for phase, value in timings.items()}


def _show(
    outlets: list[MetricLogger],
    step: int,
    metrics: Numbers,
    view: View,
    answers: Sequence[ShownAnswer] = (),
) -> None:
    """Log to every logger; one that fails is dropped from then on."""
    for logger in list(outlets):
        try:
            logger.log(step, metrics, answers)
        except Exception as error:  # such as a lost network connection
            outlets.remove(logger)
            name = type(logger).__name__
            view.notice(step, f"{name} is dropped from here on ({first_line(error)})")


def _step(
    run: Run, folder: RunFolder, view: View, recorder: Recorder
) -> tuple[Numbers, Numbers, list[ShownAnswer]]:
    """One step of Algorithm 1, with any curriculum: plan, update, log.

    Returns its metrics, its seconds by phase, and some of its answers.
    """
    settings, account = run.config.training, run.account
    meter = Meter(run.engine, view.phase)
    started = run.engine.clock()
    batch = plan_step(run.curriculum, run.pool, account, run.engine.version, settings.seed, meter)
    updated: Numbers = {}
    if batch.groups:
        with meter.phase("update"):
            updated = run.engine.update(batch)
    account.elapsed += run.engine.clock() - started
    account.step += 1
    metrics = {**step_metrics(account, batch, meter.counts), **updated, **batch.metrics}
    watched = run.standstill.notices(account.step, metrics, folder.path)
    _tell(run, folder, view, *batch.notices, *run.truncations.notices(meter.counts), *watched)
    every = settings.evaluate
    if account.fraction >= 1 or (every and account.step % every == 0):
        metrics |= evaluate(run, folder, view, recorder)
        _tell(run, folder, view)
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise MetisError(f"{name} = {value!r} in step {account.step}: the run went wrong there")
    folder.append("metrics", [{"step": account.step, **metrics}])
    timings = {**meter.seconds, "elapsed": account.elapsed}
    folder.append("timings", [{"step": account.step, **timings}])
    folder.append("judgments", judgment_rows(account.step, batch))
    folder.append("exemplars", exemplar_rows(account.step, batch))
    folder.append("rollouts", rollout_rows(account.step, batch))
    recorder.step(account.step, meter.heard, batch)
    shown = settings.loggers_every and account.step % settings.loggers_every == 0
    answers = list(sampled_answers(account.step, batch)) if shown else []
    return metrics, meter.seconds, answers


def _tell(run: Run, folder: RunFolder, view: View, *texts: str) -> None:
    """Show and log these notices and the engine's pending ones."""
    step, said = run.account.step, [*texts, *run.engine.notices]
    run.engine.notices.clear()
    folder.append("notices", ({"step": step, "text": text} for text in said))
    for text in said:
        view.notice(step, text)


def evaluate(run: Run, folder: RunFolder, view: View, recorder: Recorder) -> dict[str, float]:
    """Validate: the reward of every held-out prompt is logged; a failed one counts as 0."""
    view.phase("evaluate")
    answers, step = _answered(run, folder, view, recorder), run.account.step
    scores = [(prompt, score or 0.0) for prompt, score in answers]
    failed = sum(score is None for _, score in answers)
    rows = ({"step": step, "prompt": prompt, "reward": score} for prompt, score in scores)
    folder.append("evals", rows)
    rewards: dict[str, list[float]] = {}
    for prompt, score in scores:
        name = benchmark(prompt) if run.config.training.benchmarks else ""
        rewards.setdefault(name, []).append(score)
    metrics = run.account.test(rewards)
    return {**metrics, "eval/failed": float(failed)} if failed else metrics


def _answered(
    run: Run, folder: RunFolder, view: View, recorder: Recorder
) -> Sequence[tuple[str, float | None]]:
    """The rewards of the held-out prompts; those of the first validation are saved as they come."""
    task, step = run.config.task, run.account.step
    heard = partial(recorder.answers, "eval", step)
    if step or task is None:
        return run.engine.evaluate(view.count, heard=heard)
    prompts = tuple(task.heldout())
    asked = PromptSet("", "", task, prompts, "").digest
    first = FirstValidation(folder.path, f"{asked} {sources.source_digests(run.config.resolved)}")
    if first.rewards:
        view.notice(0, f"{len(first.rewards):,} of {len(prompts):,} answers were already scored")
    folder.transcripts.keep("eval", lambda head: head["prompt"] in first.rewards)
    answers = run.engine.evaluate(view.count, first, heard)
    first.end()
    return answers


@contextmanager
def _interruptible(heard: Callable[[], None]) -> Iterator[Any]:
    """Ctrl-C (or SIGTERM) ends the run after the current step; a second one ends it at once."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def note(number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        heard()

    before = {number: signals.signal(number, note) for number in (signals.SIGINT, signals.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signals.signal(number, handler)
