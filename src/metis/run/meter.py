"""The cost of a step: seconds, tokens and rollouts by phase, counted as an engine answers."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from metis.core import LAST, Batch, Chat, Completion, Engine, Evidence, Group, Prompt, Sampling
from metis.core.predictors import Predictor

ROLLOUTS = ("generated", "failed", "cut_off", "tokens", "wasted", "trained")
"""Counts of rollouts in every step, those without any too."""


class TimedEngine(Engine, Protocol):
    """An engine with a clock, real or virtual, that counts the tokens through its network.

    `laps` are the seconds, ever growing, that belong to another phase than they were spent in.
    """

    @property
    def laps(self) -> Mapping[str, float]: ...

    @property
    def processed(self) -> int: ...

    def clock(self) -> float: ...


class Meter:
    """An engine that passes every request on and keeps the accounts.

    Phases: `judge` (replies and scores for a judge, and its part of the update), `rollout`,
    `reward` (waiting for rewards when generation is over), `select` (hidden states and learned
    models of other methods, `forwards` of them), `update`. Seconds come from the engine's own
    clock; `processed` counts all tokens through the network, `tokens` those that were generated.
    `watch` hears of every phase that begins.
    """

    def __init__(
        self, engine: TimedEngine, watch: Callable[[str], None] = lambda phase: None
    ) -> None:
        self.engine = engine
        self.watch = watch
        self.seconds: dict[str, float] = {}
        self.counts = Counter({f"rollout/{what}": 0 for what in ROLLOUTS})

    @contextmanager
    def _phase(self, phase: str) -> Iterator[None]:
        self.watch(phase)
        start, before, laps = self.engine.clock(), self.engine.processed, dict(self.engine.laps)
        yield
        self._spend(phase, self.engine.clock() - start)
        for other, seconds in self.engine.laps.items():
            if seconds > laps.get(other, 0.0):
                self._spend(other, seconds - laps.get(other, 0.0))
                self._spend(phase, laps.get(other, 0.0) - seconds)
        self.counts[f"{phase}/processed"] += self.engine.processed - before

    def _spend(self, phase: str, seconds: float) -> None:
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def complete(self, chats: Sequence[Chat], sampling: Sampling) -> list[Completion]:
        with self._phase("judge"):
            completions = self.engine.complete(chats, sampling)
        self.counts["judge/asked"] += len(chats)
        self.counts["judge/tokens"] += sum(int(c.trajectory.loss_mask.sum()) for c in completions)
        return completions

    def score(self, chats: Sequence[Chat], choices: Sequence[str]) -> list[list[float]]:
        with self._phase("judge"):
            rows = self.engine.score(chats, choices)
        self.counts["judge/asked"] += len(chats)
        return rows

    def rollout(self, prompts: Sequence[Prompt], n: int) -> list[Group]:
        with self._phase("rollout"):
            groups = self.engine.rollout(prompts, n)
        self.counts["rollout/generated"] += n * len(prompts)
        self.counts["rollout/failed"] += sum(group.failed for group in groups)
        self.counts["rollout/cut_off"] += sum(group.cut_off for group in groups)
        for group in groups:
            written = sum(int(t.loss_mask.sum()) for t in group.trajectories)
            self.counts["rollout/tokens"] += written + group.failed_tokens
            self.counts["rollout/wasted"] += 0 if group.informative else written
            self.counts["rollout/wasted"] += group.failed_tokens
        return groups

    def embed(
        self, prompts: Sequence[Prompt] | Sequence[Chat], depths: Sequence[float] = LAST
    ) -> Sequence[NDArray[np.float32]]:
        with self._selecting(len(prompts)):
            return self.engine.embed(prompts, depths)

    def predict(
        self, prompts: Sequence[Prompt], model: Predictor, evidence: Evidence = ()
    ) -> list[float]:
        with self._selecting(_read(prompts, evidence)):
            return self.engine.predict(prompts, model, evidence)

    def fit(
        self,
        prompts: Sequence[Prompt],
        targets: Sequence[float],
        model: Predictor,
        evidence: Evidence = (),
    ) -> float:
        with self._selecting(_read(prompts, evidence)):
            return self.engine.fit(prompts, targets, model, evidence)

    @contextmanager
    def _selecting(self, read: int) -> Iterator[None]:
        with self._phase("select"):
            yield
        self.counts["select/forwards"] += read

    def update(self, batch: Batch) -> Mapping[str, float]:
        with self._phase("update"):
            metrics = self.engine.update(batch)
        self.counts["rollout/trained"] += sum(len(group.rewards) for group in batch.groups)
        return metrics


def _read(prompts: Sequence[Prompt], evidence: Evidence) -> int:
    """Prompts that a learned model has to read, each once."""
    return len({prompt.id for prompt in prompts} | {prompt.id for prompt, _ in evidence})
