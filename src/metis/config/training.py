"""The settings of every run, whatever its engine, task and curriculum."""

from dataclasses import dataclass, field
from typing import ClassVar

from metis.errors import require, require_at_least
from metis.run import sinks
from metis.run.budget import Budget


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
class Training:
    """Settings of every run, whatever its engine and curriculum.

    seed         fixes the pool's order, the curriculum's draws and the engine's sampling
    data_seed    fixes which prompts are trained on and which are held out; null takes `seed`
    steps        steps to take, 0 is no limit; steps that only measure difficulty count too
    tokens       stop after so many generated tokens; 0 is no limit
    processed    stop after so many tokens through a network, those only read too; 0 is no limit
    seconds      stop after so many seconds of training, validation not counted; 0 is no limit
    batch        B: prompts trained on in a step
    group        n: rollouts of each prompt
    evaluate     steps between validations; 0 validates before and after training only
    benchmarks   validation sets instead of the task's held-out prompts: names, suites or files as
                 in `metis eval --suite`; each has the same weight in the accuracy
    benchmark_limit  problems of each benchmark, those that `metis eval --limit` draws; 0 is all
    answers      answers of each group to keep in rollouts.jsonl; null keeps one of the first eight
                 groups of a step
    sinks        trackers that get a copy of the metrics: tensorboard, wandb, trackio
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
    answers: int | None = None
    sinks: tuple[str, ...] = ()
    checkpoints: Checkpoints = field(default_factory=Checkpoints)

    MAY_CHANGE: ClassVar = (
        *("steps", "tokens", "processed", "seconds", "evaluate"),
        *("answers", "sinks", "checkpoints"),
    )
    """Settings that a resumed run may change: its end, and what is tested and kept on the way."""

    def __post_init__(self) -> None:
        least = {"seed": 0, "steps": 0, "tokens": 0, "processed": 0, "seconds": 0}
        require_at_least(self, {**least, "batch": 1, "group": 2, "evaluate": 0})
        require_at_least(self, {"benchmark_limit": 0})
        used = not self.benchmark_limit or bool(self.benchmarks)
        require(used, "benchmark_limit", self.benchmark_limit, "set benchmarks too")
        for key in ("data_seed", "answers"):
            value = getattr(self, key)
            require(value is None or value >= 0, key, value, "use at least 0")
        limited = self.steps or self.tokens or self.processed or self.seconds
        require(bool(limited), "steps", self.steps, "set a limit: tokens, processed or seconds")
        sinks.check(self.sinks)

    @property
    def data(self) -> int:
        """The seed of the prompts."""
        return self.seed if self.data_seed is None else self.data_seed

    @property
    def budget(self) -> Budget:
        return Budget(self.steps, self.tokens, self.seconds, self.processed)
