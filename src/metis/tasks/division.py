"""The division of problems into those to train on and those to test on, none of them both."""

import random
from collections.abc import Callable, Hashable
from typing import TypeVar

from metis.errors import MetisError

T = TypeVar("T")


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
        raise MetisError(
            f"task.heldout = {heldout}: {len(trained)} {noun} are left to train on and "
            f"{len(tested)} to test on"
        )
    return trained, tested
