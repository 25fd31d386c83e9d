"""Shared by methods that filter groups after rollouts: stale, discarded and missing groups.

A rollout is either trained on, failed, buffered for a later step, or discarded.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from metis.core import Decision, Group, Plan, Prompt, rollout
from metis.core.pool import Pool

FULL, SHORT, EMPTY = 0, 1, 2
"""How much of a batch is missing: nothing, some, all."""


class Sampled(NamedTuple):
    """The groups rolled out in a step, positions of those to train on, and the rounds it took."""

    groups: list[Group]
    chosen: list[int]
    rounds: int


def dynamic_sampling(
    pool: Pool,
    size: int,
    group: int,
    batch: int,
    most: int,
    choose: Callable[[Sequence[Group]], list[int]],
) -> Plan[Sampled]:
    """Roll out rounds of `size` prompts, at most `most`, until a batch of groups is chosen."""
    groups: list[Group] = []
    chosen: list[int] = []
    rounds = 0
    while len(chosen) < batch and rounds < most:
        fresh = pool.sample(size, exclude=prompts(groups))
        if not fresh:
            break
        groups += yield from rollout(fresh, group)
        chosen = choose(groups)
        rounds += 1
    return Sampled(groups, chosen, rounds)


def too_old(group: Group, policy: int, stale: int) -> bool:
    """True if a rollout is more than `stale` updates old."""
    return any(policy - trajectory.policy > stale for trajectory in group.trajectories)


def prompts(*lists: Iterable[Group]) -> list[Prompt]:
    return [group.prompt for groups in lists for group in groups]


def rollout_count(groups: Iterable[Group]) -> float:
    """Rollouts with a reward; the meter counts failed ones."""
    return float(sum(len(group.rewards) for group in groups))


def decided(groups: Sequence[Group], chosen: bool, reason: str) -> list[Decision]:
    """The decisions on several groups; their scores are the variances."""
    return [
        Decision(
            group.prompt,
            chosen,
            reason,
            score=group.variance,
            failure="too few rewards" if group.variance is None else None,
        )
        for group in groups
    ]


def shortage(
    count: int, batch: int, before: int, why: str, enough: float = 1.0
) -> tuple[int, list[str]]:
    """How much of the batch is missing, with a notice when that is more than before.

    `enough` is the share of a batch that needs no notice, for methods with short ones by design.
    """
    missing = FULL if count >= enough * batch else SHORT if count else EMPTY
    if missing <= before:
        return missing, []
    outcome = f"training on {count} of {batch} groups" if count else "no update"
    return missing, [f"{why}: {outcome}"]
