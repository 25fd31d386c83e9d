"""Costs of METIS and of other curricula on the training sets that were measured.

Each share is of the groups of uniform sampling's first ten steps that have mixed rewards. Costs are
those to the highest accuracy that a curriculum and uniform sampling reach, as ratios to uniform
sampling's (docs/choosing.md, docs/when-it-pays.md, evidence/).
"""

from collections.abc import Mapping
from typing import NamedTuple


class Cost(NamedTuple):
    """Steps, rollouts, and total tokens (generated and read)."""

    steps: float
    rollouts: float
    total: float


class MeasuredPool(NamedTuple):
    """A training set: its share of informative prompts, and what each curriculum costs there."""

    informative: float
    costs: Mapping[str, Cost]


class Gain(NamedTuple):
    """The cost of METIS on a training set, of additions or of mathematics problems."""

    name: str
    additions: bool
    informative: float
    cost: Cost


POOLS = (
    MeasuredPool(
        0.190,
        {
            "metis": Cost(1.08, 1.08, 2.75),
            "probe": Cost(1.19, 1.19, 2.50),
            "mopps": Cost(0.71, 0.71, 0.71),
            "dapo": Cost(0.77, 3.10, 2.16),
        },
    ),
    MeasuredPool(
        0.060,
        {
            "metis": Cost(0.74, 0.74, 2.58),
            "probe": Cost(0.60, 0.60, 1.81),
            "mopps": Cost(0.82, 0.82, 0.83),
            "dapo": Cost(0.38, 2.52, 2.27),
        },
    ),
    MeasuredPool(
        0.048,
        {
            "metis": Cost(0.68, 0.68, 2.85),
            "probe": Cost(0.58, 0.58, 2.08),
            "mopps": Cost(1.22, 1.22, 1.25),
            "dapo": Cost(0.40, 5.24, 4.99),
        },
    ),
    MeasuredPool(
        0.021,
        {
            "metis": Cost(0.31, 0.31, 1.44),
            "probe": Cost(0.30, 0.30, 1.13),
            "mopps": Cost(1.06, 1.06, 1.04),
            "dapo": Cost(0.23, 5.12, 5.08),
        },
    ),
    MeasuredPool(
        0.006,
        {
            "metis": Cost(0.17, 0.17, 0.75),
            "probe": Cost(0.45, 0.45, 1.58),
            "mopps": Cost(1.11, 1.11, 1.11),
            "dapo": Cost(0.10, 2.89, 2.86),
        },
    ),
)
"""Additions with a model of 135M parameters, from no all-fail prompts to 97%, three runs each."""

GAINS = (
    Gain("additions, 0% all-fail", True, POOLS[0].informative, POOLS[0].costs["metis"]),
    Gain("additions, 50% all-fail", True, POOLS[1].informative, POOLS[1].costs["metis"]),
    Gain("additions, 80% all-fail", True, POOLS[2].informative, POOLS[2].costs["metis"]),
    Gain("additions, 90% all-fail", True, POOLS[3].informative, POOLS[3].costs["metis"]),
    Gain("additions, 97% all-fail", True, POOLS[4].informative, POOLS[4].costs["metis"]),
    Gain("additions, 90% all-fail, all levels", True, 0.014, Cost(0.23, 0.23, 1.01)),
    Gain("additions, graded", True, 0.067, Cost(1.09, 1.09, 3.40)),
    Gain("MATH", False, 0.479, Cost(1.58, 1.58, 2.08)),
    Gain("DAPO-Math-17k, harder part", False, 0.188, Cost(2.50, 2.50, 3.07)),
)
"""Every training set with comparable runs of METIS: `direct` with 135M parameters on additions, the
readout with 1.5B on mathematics."""


def nearest(informative: float) -> MeasuredPool:
    """The measured training set whose share is nearest, as a ratio."""
    return min(
        POOLS,
        key=lambda pool: (
            max(pool.informative, informative) / max(min(pool.informative, informative), 1e-9)
        ),
    )
