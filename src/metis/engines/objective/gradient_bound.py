"""The bound on the judge's gradient norm, as a share of the policy's: Eq. 10's weighting.

Unlike lambda, it means the same for every loss, batch size and model.
"""

import math
from dataclasses import dataclass, field

from metis.core.state import Stateful

MEMORY = 0.9
FLOOR = 0.1
"""The policy's norm counts as at least this share of `large`."""


@dataclass
class GradientBound(Stateful):
    """Running mean of the policy's gradient norm, over the steps that have one.

    large  a large norm of the policy's gradient, such as the clipping threshold; 0 counts as 1
    """

    large: float = 1.0
    mean: float | None = field(init=False, default=None)

    def note(self, norm: float) -> None:
        """Update the running mean with the policy's norm, after clipping."""
        if norm > 0 and math.isfinite(norm):
            self.mean = norm if self.mean is None else MEMORY * self.mean + (1 - MEMORY) * norm

    @property
    def reference(self) -> float:
        """The policy norm that the bound refers to."""
        return max(self.mean or 0.0, FLOOR * (self.large or 1.0))

    def scale(self, gradient_share: float, norm: float) -> float:
        """The factor that brings a judge's gradient of this norm within the bound."""
        return min(1.0, gradient_share * self.reference / norm) if norm > 0 else 1.0
