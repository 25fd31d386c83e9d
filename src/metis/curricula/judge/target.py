"""The target of a judgment: the outcome of a group, as a variance and as a point of the scale."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from metis.core.pool import Rewards
from metis.curricula.judge.memory import Pair, quantile
from metis.curricula.judge.scale import ATTEMPTS, PASSES, PASSES_AND_LENGTH, Scale
from metis.curricula.judge.settings import Judge
from metis.signal import VARIANCE_MAX


class Target(NamedTuple):
    """The scale of a step, and the recent variances that ranks are taken among, if they are."""

    scale: Scale
    among: tuple[float, ...] | None
    thirds: tuple[float, ...] = ()
    """The lengths of answers between which the middle third of the recent ones is."""

    @classmethod
    def of(cls, judge: Judge, rewards: Rewards, memory: Sequence[Pair]) -> "Target":
        automatic = "rank" if rewards == "continuous" else "variance"
        ranked = (automatic if judge.target == "auto" else judge.target) == "rank"
        ranked &= judge.mode != "readout"  # whose predictions are variances
        among = tuple(pair.v for pair in memory) if ranked else None
        lengths = [pair.length for pair in memory]
        thirds = tuple(np.quantile(lengths, [1 / 3, 2 / 3]).tolist()) if lengths else ()
        return cls(judge.scale_for(rewards), among, thirds)

    def variance(self, v: float) -> float:
        """The v of Eq. 8: the realised variance, or its rank scaled to the same range."""
        return v if self.among is None else VARIANCE_MAX * quantile(v, self.among)

    def point(self, pair: Pair) -> float:
        """An outcome on the scale that the judge answers in."""
        if self.scale is PASSES_AND_LENGTH:
            third = sum(pair.length > bound for bound in self.thirds)
            return len(PASSES.points) * third + ATTEMPTS * pair.mean
        return ATTEMPTS * pair.mean if self.scale is PASSES else self.variance(pair.v)
