"""Measures the cost of a step: seconds, tokens and rollouts by phase."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from metis.core import Complete, Engine, Rollout
from metis.core.requests import Reply, Request

ROLLOUTS = ("generated", "failed", "cut_off", "tokens", "wasted", "trained")
"""Rollout counters that every step has, even without rollouts."""


class TimedEngine(Engine, Protocol):
    """An engine with a clock, real or virtual, and a counter of the tokens of its forward passes.

    `laps` are cumulative seconds by phase that were spent inside another phase, such as waiting for
    rewards during rollouts.
    """

    @property
    def laps(self) -> Mapping[str, float]: ...

    @property
    def processed(self) -> int: ...

    def clock(self) -> float: ...


class Meter(Engine):
    """Wraps an engine and counts the cost of every request.

    Phases: `judge` (replies and scores for a judge, and its part of the update), `rollout`,
    `reward` (waiting for rewards after generation), `select` (hidden states and predictors of other
    methods, `forwards` of them), `update`. Seconds come from the engine's clock; `processed` counts
    total tokens (prompt + generated), `tokens` generated ones. `watch` is called with each phase.
    `heard` has the requests for which the policy wrote something, with their replies.
    """

    def __init__(
        self, engine: TimedEngine, watch: Callable[[str], None] = lambda phase: None
    ) -> None:
        self.engine = engine
        self.watch = watch
        self.seconds: dict[str, float] = {}
        self.counts = Counter({f"rollout/{what}": 0 for what in ROLLOUTS})
        self.heard: list[tuple[Request[Any], Any]] = []

    @contextmanager
    def phase(self, phase: str) -> Iterator[None]:
        """Count the time and tokens spent inside towards a phase."""
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

    def answer(self, request: Request[Reply]) -> Reply:
        with self.phase(request.phase):
            reply = self.engine.answer(request)
        self.counts.update(request.cost(reply))
        if isinstance(request, Rollout | Complete):
            self.heard.append((request, reply))
        return reply
