"""The bound on the judge's gradient: its norm is at most a share of the policy's.

lambda has no scale that holds across losses, batches and models; the policy's own gradient has.
"""

import math
from dataclasses import dataclass, field

from metis.core.state import Stateful

MEMORY = 0.9
FLOOR = 0.1
"""The policy's norm never counts as less than this share of a large one."""


@dataclass
class GradientBound(Stateful):
    """The running mean of the policy's gradient norm, of steps that have one.

    large  a large norm of the policy's gradient: where it is clipped; 0 counts as 1
    """

    large: float = 1.0
    mean: float | None = field(init=False, default=None)

    def note(self, norm: float) -> None:
        """Take in the norm of a policy gradient, clipped as it was applied."""
        if norm > 0 and math.isfinite(norm):
            self.mean = norm if self.mean is None else MEMORY * self.mean + (1 - MEMORY) * norm

    @property
    def reference(self) -> float:
        """The policy's norm that judgments are measured by, in steps without one too."""
        return max(self.mean or 0.0, FLOOR * (self.large or 1.0))

    def scale(self, share: float, norm: float) -> float:
        """The factor at which a judge's gradient of this norm is applied."""
        return min(1.0, share * self.reference / norm) if norm > 0 else 1.0
