"""Settings of every run, independent of engine, task and curriculum."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

from metis.errors import require, require_at_least
from metis.run import loggers
from metis.run.budget import Budget
from metis.run.recording import Kept


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints to resume from.

    every  steps between checkpoints
    keep   number of latest checkpoints to keep
    """

    every: int = 10
    keep: int = 2

    def __post_init__(self) -> None:
        require_at_least(self, {"every": 1, "keep": 1}, "checkpoints.")


@dataclass(frozen=True)
class RunSettings:
    """Settings of every run, independent of engine and curriculum.

    seed         of the order of prompts, the curriculum's draws and the engine's sampling
    data_seed    of the split into training and held-out prompts; null takes `seed`
    steps        training steps, 0 is no limit; steps that only measure difficulty count too
    tokens       stop after this many generated tokens; 0 is no limit
    processed    stop after this many total tokens (prompt + generated, of all forward passes); 0 is
                 no limit
    seconds      stop after this many seconds of training, without validation; 0 is no limit
    batch        B: prompts per training step
    group        n: rollouts per prompt
    evaluate     steps between validations; 0 validates only before and after training
    benchmarks   validation sets instead of the task's held-out prompts: names, suites or files as
                 in `metis eval --suite`; each has the same weight in the accuracy
    benchmark_limit  problems per benchmark, sampled as by `metis eval --limit`; 0 is all
    transcripts  what is kept of what was said: `all` rollouts, a `sample` of one per group, `none`
    transcripts_gb  limit of their size in GB: the oldest steps keep one rollout per group, then
                 none; 0 is no limit
    loggers      trackers that get a copy of the metrics: tensorboard, wandb, trackio
    loggers_every  steps between the samples of answers that trackers get; 0 sends none
    """

    seed: int = 0
    data_seed: int | None = None
    steps: int = 200
    tokens: int = 0
    processed: int = 0
    seconds: float = 0.0
    batch: int = 32
    group: int = 8
    evaluate: int = 20
    benchmarks: tuple[str, ...] = ()
    benchmark_limit: int = 0
    transcripts: Kept = "all"
    transcripts_gb: float = 2.0
    loggers: tuple[str, ...] = ()
    loggers_every: int = 10
    checkpoints: Checkpoints = field(default_factory=Checkpoints)

    MAY_CHANGE: ClassVar = (
        *("steps", "tokens", "processed", "seconds", "evaluate"),
        *("transcripts", "transcripts_gb", "loggers", "loggers_every", "checkpoints"),
    )
    """Settings that may change on resume: the budget, validation, logging and checkpoints."""

    def __post_init__(self) -> None:
        least = {"seed": 0, "steps": 0, "tokens": 0, "processed": 0, "seconds": 0}
        require_at_least(self, {**least, "batch": 1, "group": 2, "evaluate": 0, "loggers_every": 0})
        require_at_least(self, {"benchmark_limit": 0})
        used = not self.benchmark_limit or bool(self.benchmarks)
        require(used, "benchmark_limit", self.benchmark_limit, "set benchmarks too")
        limit = self.transcripts_gb
        valid = math.isfinite(limit) and limit >= 0
        require(valid, "transcripts_gb", limit, "use a number, 0 or more")
        seed = self.data_seed
        require(seed is None or seed >= 0, "data_seed", seed, "use at least 0")
        limited = self.steps or self.tokens or self.processed or self.seconds
        require(bool(limited), "steps", self.steps, "set a limit: tokens, processed or seconds")
        loggers.check_loggers(self.loggers)

    @property
    def data(self) -> int:
        """The seed of the prompts."""
        return self.seed if self.data_seed is None else self.data_seed

    @property
    def budget(self) -> Budget:
        return Budget(self.steps, self.tokens, self.seconds, self.processed)
