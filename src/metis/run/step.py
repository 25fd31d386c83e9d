"""One step of any trainer: the batch that the curriculum plans, and its place in the accounts."""

from collections.abc import Mapping

from metis.core import Batch, Curriculum, Progress
from metis.core.drive import drive
from metis.core.pool import Pool
from metis.run.budget import Account
from metis.run.meter import Meter
from metis.run.records import batch_metrics


def plan(
    curriculum: Curriculum, pool: Pool, account: Account, version: int, seed: int, meter: Meter
) -> Batch:
    """Lines 3 to 5 of Algorithm 1, whatever the curriculum; `version` is the policy's."""
    progress = Progress(account.step, account.fraction, version, seed)
    return drive(curriculum.step(pool, progress), meter)


def booked(account: Account, batch: Batch, counts: Mapping[str, int]) -> dict[str, float]:
    """The metrics of a batch, its costs added to the account."""
    return {**account.count(counts), **batch_metrics(batch)}
