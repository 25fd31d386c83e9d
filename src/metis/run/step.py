"""Plans one step with the curriculum, for any trainer, and counts its cost."""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from metis.core import Batch, Curriculum, Group, Progress, state
from metis.core.drive import drive
from metis.core.pool import Pool
from metis.errors import MetisError
from metis.run.budget import Account
from metis.run.meter import Meter
from metis.run.records import batch_metrics


def plan_step(
    curriculum: Curriculum, pool: Pool, account: Account, version: int, seed: int, meter: Meter
) -> Batch:
    """Lines 3 to 5 of Algorithm 1, for any curriculum; `version` is the policy's."""
    progress = Progress(account.step, account.fraction, version, seed)
    asked = curriculum.step(pool, progress)
    _require(isinstance(asked, Generator), curriculum, _what(asked), "ask with `yield from`")
    batch = drive(asked, meter)
    _check(batch, curriculum)
    if account.step == 0:
        state.require_savable(curriculum)
    return batch


def _check(batch: Any, curriculum: Curriculum) -> None:
    """Refuse a result of a plan that is not a valid batch."""
    remedy = "return a metis.core.Batch"
    _require(isinstance(batch, Batch), curriculum, _what(batch), remedy)
    groups = batch.groups
    _require(isinstance(groups, Sequence), curriculum, f"groups that are {_what(groups)}", remedy)
    for group in groups:
        flaw = f"{_what(group)} among the groups"
        _require(isinstance(group, Group), curriculum, flaw, "they come from `rollout`")
    most, ids = getattr(curriculum, "batch", len(groups)), Counter(g.prompt.id for g in groups)
    flaw, remedy = f"{len(groups)} groups", f"at most batch = {most} are trained on"
    _require(len(groups) <= most, curriculum, flaw, remedy)
    for prompt, count in ids.items():
        flaw = f"prompt {prompt!r} {count} times"
        _require(count == 1, curriculum, flaw, "the prompts of a batch are distinct")


def _require(holds: bool, curriculum: Curriculum, returned: str, remedy: str) -> None:
    if not holds:
        raise MetisError(f"{type(curriculum).__name__}.step returned {returned}: {remedy}")


def _what(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def step_metrics(account: Account, batch: Batch, counts: Mapping[str, int]) -> dict[str, float]:
    """The metrics of a batch; its counters are added to the account."""
    trained = sum(len(group.rewards) for group in batch.groups)
    return {**account.count({**counts, "rollout/trained": trained}), **batch_metrics(batch)}
