"""Splits problems into training and held-out ones, without overlap."""

import random
from collections.abc import Callable, Hashable
from typing import TypeVar

from metis.errors import MetisError

T = TypeVar("T")

MOST = 200
"""Maximum of the default number of held-out problems."""


def usual(problems: int) -> int:
    """The default number of held-out problems: a fifth, at most 200."""
    return max(1, min(MOST, problems // 5))


def remedy(problems: int) -> str:
    """The remedy for too many held-out problems."""
    fewer = f"; try task.heldout={problems // 5}" if problems // 5 else ""
    return f"{fewer}; or test on a file of its own: benchmarks=test.jsonl task.heldout=1"


def divided(
    problems: list[T],
    others: list[T] | None,
    heldout: int,
    seed: int,
    key: Callable[[T], Hashable],
    noun: str = "problems",
) -> tuple[list[T], list[T]]:
    """Training problems, and `heldout` held-out ones, drawn by the seed; both lists are shuffled.

    Held-out problems are from `others` if given (0 is all of them). Training problems with the key
    of a held-out one are dropped.
    """
    rng = random.Random(seed)
    rng.shuffle(problems)
    if others is None:
        tested, problems = problems[:heldout], problems[heldout:]
    else:
        rng.shuffle(others)
        tested = others[: heldout or None]
    keys = set(map(key, tested))
    trained = [problem for problem in problems if key(problem) not in keys]
    if not trained or not tested:
        count = len(problems) + (len(tested) if others is None else 0)
        raise MetisError(
            f"task.heldout = {heldout}: {len(trained)} {noun} are left to train on and "
            f"{len(tested)} to test on{remedy(count)}"
        )
    return trained, tested
