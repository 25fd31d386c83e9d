"""The target of a judgment: the outcome of a group, as a variance and as a point of the scale."""

from collections.abc import Sequence
from typing import NamedTuple

from metis.core.pool import Rewards
from metis.curricula.judge.memory import Pair, quantile
from metis.curricula.judge.scale import ATTEMPTS, PASSES, Scale
from metis.curricula.judge.settings import Judge
from metis.signal import VARIANCE_MAX


class Target(NamedTuple):
    """The scale of a step, and the recent variances that ranks are taken among, if they are."""

    scale: Scale
    among: tuple[float, ...] | None

    @classmethod
    def of(cls, judge: Judge, rewards: Rewards, memory: Sequence[Pair]) -> "Target":
        automatic = "rank" if rewards == "continuous" else "variance"
        ranked = (automatic if judge.target == "auto" else judge.target) == "rank"
        among = tuple(pair.v for pair in memory) if ranked else None
        return cls(judge.scale_for(rewards), among)

    def variance(self, v: float) -> float:
        """The v of Eq. 8: the realised variance, or its rank scaled to the same range."""
        return v if self.among is None else VARIANCE_MAX * quantile(v, self.among)

    def point(self, pair: Pair) -> float:
        """An outcome on the scale that the judge answers in."""
        return ATTEMPTS * pair.mean if self.scale is PASSES else self.variance(pair.v)
