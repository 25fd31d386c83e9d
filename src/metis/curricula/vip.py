"""VIP: a budget of rollouts, divided so that the variance of the gradient is lowest.

Idea       The gradient of a prompt is the noisier the nearer its pass rate is to one half, and the
           less so the more rollouts it has: predict the pass rate and give rollouts where they
           lower the noise of the whole update most.
Equation   minimise sum_i p_i (1 - p_i) f(n_i), sum n_i = B n, least <= n_i <= most, where
           f(n) = (n - 1) / n^2 for centred advantages (Dr. GRPO), 1 / (n - 1) for RLOO; p_i by a
           Gaussian process of log-odds over embeddings, its mean updated after every step.
Acts       before rollouts
Costs      a hidden state of each new prompt; with another judge, what that costs
Continuous p is the mean reward
Reference  Nguyen et al., VIP (variance-informed predictive allocation), arXiv 2602.01601.
Deviations
1. The optimum over whole numbers is taken at once, as both f are convex there: the paper solves the
   continuous problem by bisection, then rounds.
2. The embedding is the policy's hidden state of the prompt, standardised, from when it was seen
   first; the paper's is that of a sentence encoder. The bandwidth is the median distance in the
   first step, not in the whole training set.
3. The posterior mean is carried on, the covariance is not: so in what its authors had published of
   their code, from which least, most, prior, noise and the clipping of p are taken too.
4. f is that of a mean over prompts, as in the paper. The loss is the engine's, a mean over
   rollouts: a prompt with more of them weighs more.
5. With another judge p (1 - p) is its prediction, v_hat where it has no pass rate. A prompt without
   a prediction has the mean of the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from metis.curricula.allocation import Allocation, Counts, Floats, divide
from metis.curricula.judges import GaussianProcess, Judge, Prediction
from metis.errors import require
from metis.signal import VARIANCE_MAX

SMALLEST = 1e-6
"""The smallest p (1 - p): no prompt is so certain that the number of its rollouts is any."""


@dataclass
class Vip(Allocation):
    """Divides the rollouts of a uniform batch so that the gradient has the least variance.

    least, most   rollouts of a prompt (4, 32); `grpo` needs 3 of them
    estimator     the advantages whose variance counts: `grpo`, centred, as METIS's are · `rloo`
    judge         `gaussian_process`, over hidden states; or any other judge
    """

    batch: int = 256
    group: int = 8
    least: int = 4
    most: int = 32
    estimator: Literal["grpo", "rloo"] = "grpo"
    judge: Judge[Any] = field(default_factory=GaussianProcess)

    def __post_init__(self) -> None:
        super().__post_init__()
        convex = self.estimator == "rloo" or self.least >= 3
        remedy = "use at least 3, below which the second rollout adds variance, or estimator=rloo"
        require(convex, "curriculum.least", self.least, remedy)

    def allocate(self, predictions: Sequence[Prediction]) -> Counts:
        known = [_spread(each) for each in predictions]
        usual = float(np.mean([v for v in known if v is not None] or [VARIANCE_MAX]))
        spread = np.array([usual if v is None else max(v, SMALLEST) for v in known])
        room = np.full(len(spread), self.most - self.least)
        budget = (self.group - self.least) * len(spread)
        return self.least + divide(spread[:, None] * self._lowered(), room, budget)

    def _lowered(self) -> Floats:
        """f(n) - f(n + 1), by which a further rollout lowers the variance."""
        n = np.arange(self.least, max(self.most, self.least + 1) + 1, dtype=np.float64)
        f = (n - 1) / n**2 if self.estimator == "grpo" else 1 / (n - 1)
        return np.asarray(f[:-1] - f[1:])


def _spread(prediction: Prediction) -> float | None:
    """p (1 - p), or the predicted variance."""
    p = prediction.pass_rate
    return prediction.v_hat if p is None else p * (1 - p)
