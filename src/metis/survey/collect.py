"""Rollouts of a random sample of a pool, written down as they come and resumed where they ended."""

import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from metis.core import Group, Prompt, Rollout
from metis.core.pool import Pool
from metis.loop import Trainable
from metis.run.folder import Folder, read
from metis.survey.facts import Outcome
from metis.survey.progress import SurveyView

SLOW = 32
"""Rollouts at a time where a CPU generates them: what is saved together, and lost together."""


class SurveyFolder(Folder):
    """The folder of a survey: one row a prompt."""

    LOGS: ClassVar = ("outcomes",)

    def resume(self, count: int, batch: int) -> list[Outcome]:
        """The outcomes of whole batches; what else was written of the next is cut off."""
        lines = (self.path / "outcomes.jsonl").read_bytes().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]
        if len(whole) < count:
            whole = whole[: len(whole) // batch * batch]
        self.cut({"outcomes": sum(map(len, whole))})
        return [Outcome.of(row) for row in read(self.path, "outcomes")]


def sampled(pool: Pool, count: int, seed: int) -> list[Prompt]:
    """Prompts of the pool, drawn without replacement; all where there are no more."""
    return random.Random(seed).sample(list(pool.prompts), min(count, len(pool)))


def collect(
    engine: Trainable,
    prompts: Sequence[Prompt],
    group: int,
    batch: int,
    seed: int,
    folder: SurveyFolder,
    view: SurveyView,
) -> list[Outcome]:
    """The outcomes of all prompts, some at a time; those in the folder are not played again."""
    if getattr(engine, "slow", False):
        batch = min(batch, max(1, SLOW // group))
    outcomes = folder.resume(len(prompts), batch)
    view.resume(group * len(outcomes))
    for start in range(len(outcomes), len(prompts), batch):
        engine.reseed(zlib.crc32(f"{seed}/{start}".encode()))
        with _counting(engine, view):
            groups = engine.answer(Rollout(prompts[start : start + batch], group))
        played = list(_rows(groups))
        folder.append("outcomes", played)
        outcomes += [Outcome.of(row) for row in played]
        view.save(group * len(outcomes))
    return outcomes


def _counting(engine: Trainable, view: SurveyView) -> AbstractContextManager[None]:
    """Tells the view of every rollout that ends, on an engine that can say so."""
    counting = getattr(engine, "counting", None)
    return nullcontext() if counting is None else counting(view.play)


def _rows(groups: Sequence[Group]) -> Iterator[Mapping[str, Any]]:
    for group in groups:
        yield {
            "prompt": group.prompt.id,
            "category": group.prompt.category,
            "rewards": list(group.rewards),
            "tokens": [int(trajectory.loss_mask.sum()) for trajectory in group.trajectories],
            "failed": group.failed,
            "cut_off": group.cut_off,
        }
