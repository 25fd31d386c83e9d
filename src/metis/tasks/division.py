"""Splits problems into a training and a disjoint test set."""

import random
from collections.abc import Callable, Hashable
from typing import TypeVar

from metis.errors import MetisError

T = TypeVar("T")

MOST = 200
"""Problems to test on, where nothing else is said and there are enough."""


def usual(problems: int) -> int:
    """The default number of test problems: a fifth, at most 200."""
    return max(1, min(MOST, problems // 5))


def remedy(problems: int) -> str:
    """The remedy for too many problems to test on."""
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
    """Problems to train on, and `heldout` to test on, drawn by the seed; both lists are shuffled.

    Those to test on are of `others` (0 is all of them), or without any of the problems. None is
    trained on that has the key of one to test on.
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
