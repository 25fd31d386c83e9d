"""Batches of problems to answer together, fixed by the problems and the limits alone.

Every batch draws from a generator of its own. So an evaluation that was stopped and goes on gives
the answers of one that was not.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class BatchLimits:
    """The size of a batch.

    rows    answers
    tokens  tokens of their prompts and of answers of full length; 0 is no limit
    """

    rows: int
    tokens: int

    def fit(self, length: int, rows: int) -> bool:
        """True if this many rows of this length fit a batch; a single row always does."""
        return rows <= 1 or (rows <= self.rows and rows * length <= (self.tokens or rows * length))


def batches(
    lengths: Sequence[int], longest: int, samples: int, limits: BatchLimits
) -> list[list[int]]:
    """Batches of problem indices, short prompts first to save padding, all samples together."""
    order = sorted(range(len(lengths)), key=lambda place: lengths[place])
    planned: list[list[int]] = []
    for place in order:
        rows = (len(planned[-1]) + 1) * samples if planned else 0
        if planned and limits.fit(lengths[place] + longest, rows):
            planned[-1].append(place)
        else:
            planned.append([place])
    return planned


def in_order(count: int, samples: int, rows: int) -> list[list[int]]:
    """Batches of problem indices in order, of the size of training's rollouts."""
    size = max(1, rows // samples)
    return [list(range(start, min(start + size, count))) for start in range(0, count, size)]


def copies(length: int, samples: int, limits: BatchLimits) -> list[int]:
    """The samples of a batch in parts that fit: one part unless a problem alone is too much."""
    part = samples
    while not limits.fit(length, part):
        part = (part + 1) // 2
    whole, rest = divmod(samples, part)
    return [part] * whole + [rest] * bool(rest)


def batch_seed(seed: int, benchmark: str, number: int) -> int:
    """The seed of a batch, the same on every machine."""
    digest = hashlib.sha256(f"{seed}/{benchmark}/{number}".encode()).digest()
    return int.from_bytes(digest[:4], "little") >> 1
