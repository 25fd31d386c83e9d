"""An engine that plays nothing: outcomes of a set are the answers to its rollouts.

So a judge is trained and measured on a real model without a single rollout. What was written is not
known, only its length: an update changes the judge alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from metis.core import Batch, Engine, Group, Prompt, Rollout, Trajectory
from metis.core.requests import Reply, Request
from metis.errors import MetisError
from metis.loop import Trainable
from metis.surveys.facts import PromptOutcome


class RecordedRollouts(Engine):
    """Passes every request on to an engine, rollouts excepted."""

    def __init__(self, engine: Trainable, outcomes: Iterable[PromptOutcome]) -> None:
        self.engine = engine
        self.outcomes = {outcome.prompt: outcome for outcome in outcomes}

    def answer(self, request: Request[Reply]) -> Reply:
        own = isinstance(request, Rollout)
        return super().answer(request) if own else self.engine.answer(request)

    def rollout(self, prompts: Sequence[Prompt], n: int) -> list[Group]:
        return [self._group(prompt, n) for prompt in prompts]

    def _group(self, prompt: Prompt, n: int) -> Group:
        outcome = self.outcomes.get(prompt.id)
        if outcome is None or len(outcome.rewards) + outcome.failed != n:
            recorded = "none" if outcome is None else len(outcome.rewards) + outcome.failed
            raise MetisError(
                f"prompt {prompt.id!r}: {n} rollouts are asked for and {recorded} are recorded; "
                "set group to what the survey had"
            )
        written = tuple(map(_blank, outcome.tokens))
        return Group(prompt, outcome.rewards, written, outcome.failed, cut_off=outcome.cut_off)

    def update(self, batch: Batch) -> Mapping[str, float]:
        """The engine's update on the judgments; nothing of the rollouts is there to train on."""
        unwritten = [
            replace(group, trajectories=(_blank(0),) * len(group.rewards)) for group in batch.groups
        ]
        return self.engine.update(replace(batch, groups=unwritten))


def _blank(length: int) -> Trajectory:
    """A rollout of which only the length is known, after one token of context."""
    mask = np.arange(length + 2) >= 2
    return Trajectory(mask.astype(np.int64), mask, mask.astype(np.float32), policy=0)
