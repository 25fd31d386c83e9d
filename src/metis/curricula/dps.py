"""DPS: a hidden Markov model of each prompt says whether its next group will be mixed.

Idea       A prompt is unsolved, partly solved or solved, and moves between these states as the
           policy learns. Its groups show the state; between them it drifts.
Equation   pi <- P pi, P = the columns of alpha divided by their sums, every step. A group sets pi
           to its state and alpha <- lambda alpha + (1 - lambda) alpha_0 + xi, where
           xi_ij ~ pi_i P_ij pi'_j with pi' the state of the step before, sum xi = 1; without one
           xi = 0. S_t = the B highest pi_mixed among m*B candidates.
Acts       before rollouts
Costs      nothing
Continuous mixed: v > delta; the others by their mean reward, below 0.5 or not
Reference  Mao et al., DPS (dynamics-predictive sampling), arXiv 2603.10887; defaults of its
           released script for MATH, lambda of Countdown and Geometry is 0.5 and m is 8.
Deviations
1. Ties are broken at random: all prompts that were never rolled out have the same pi, and the
   released code takes the first of them in the order of the data.
2. A group with too few rewards for a variance is not observed.
3. The released code also has other priors, and adds an entropy to the score; its scripts do not use
   them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from metis.core import Batch, Group, Plan, Progress, Prompt, rollout
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.selection import top_decisions
from metis.errors import require, require_at_least
from metis.signal import INFORMATIVE, top_b

UNSOLVED, MIXED, SOLVED = 0, 1, 2
UNSEEN = 1 / 3
"""Each pi of a prompt that was never rolled out: it stays as it is, since alpha_0 is even."""

Floats = NDArray[np.float64]


@dataclass
class Dps(Stateful):
    """Selects the prompts that are most likely to have mixed rewards now.

    batch, group  B prompts a step, n rollouts each
    multiplier    m: m*B candidates (32)
    decay         lambda: how much of the transitions seen so far is kept in a step (0.7)
    prior         alpha_0: pseudo-counts of each transition (1)
    delta         a group is mixed when its variance is above this
    """

    needs: ClassVar = Needs(data="prompts that come round again")

    batch: int = 256
    group: int = 8
    multiplier: int = 32
    decay: float = 0.7
    prior: float = 1.0
    delta: float = INFORMATIVE

    rows: dict[str, int] = field(init=False, default_factory=dict)
    """The row of each prompt that was rolled out."""
    transitions: Floats = field(init=False, default_factory=lambda: np.zeros((0, 3, 3)))
    """alpha: pseudo-counts [to, from]."""
    states: Floats = field(init=False, default_factory=lambda: np.zeros((0, 3)))
    """pi after a step."""
    priors: Floats = field(init=False, default_factory=lambda: np.zeros((0, 3)))
    """pi before its last transition."""

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require_at_least(self, {"multiplier": 1, "delta": 0}, "curriculum.")
        require(0 <= self.decay <= 1, "curriculum.decay", self.decay, "use a number from 0 to 1")
        require(self.prior > 0, "curriculum.prior", self.prior, "use a number above 0")

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        candidates = pool.sample(self.multiplier * self.batch)
        scores = [self.chance(prompt) for prompt in candidates]
        known = sum(prompt.id in self.rows for prompt in candidates)
        chosen = set(top_b(scores, self.batch, progress.rng("ties")))
        taken = [prompt for i, prompt in enumerate(candidates) if i in chosen]
        groups = yield from rollout(taken, self.group)
        self.observe(groups)
        return Batch(
            groups,
            metrics={
                "select/candidates": float(len(candidates)),
                "select/known": float(known),
            },
            decisions=top_decisions(candidates, chosen, scores),
        )

    def chance(self, prompt: Prompt) -> float:
        """pi_mixed of a prompt."""
        row = self.rows.get(prompt.id)
        return UNSEEN if row is None else float(self.states[row, MIXED])

    def observe(self, groups: Sequence[Group]) -> None:
        """One step of every filter: with the state of its group, or with none."""
        seen = {group.prompt.id: self._state(group) for group in groups}
        observed = {name: state for name, state in seen.items() if state is not None}
        self._add([name for name in observed if name not in self.rows])
        rows = np.array([self.rows[name] for name in observed], dtype=np.int64)
        shown = np.array(list(observed.values()), dtype=np.int64)
        now = self.states.copy()
        now[rows] = np.eye(3)[shown]
        joint = now[rows, :, None] * _normalised(self.transitions[rows]) * self.priors[rows, None]
        self.transitions = self.decay * self.transitions + (1 - self.decay) * self.prior
        self.transitions[rows] += joint / joint.sum(axis=(1, 2), keepdims=True)
        self.priors = now
        self.states = np.einsum("nij,nj->ni", _normalised(self.transitions), now)

    def _state(self, group: Group) -> int | None:
        """What a group shows; None with too few rewards."""
        if group.variance is None or group.mean is None:
            return None
        if group.variance > self.delta:
            return MIXED
        return UNSOLVED if group.mean < 0.5 else SOLVED

    def _add(self, names: Sequence[str]) -> None:
        """Filters of prompts that were not rolled out before."""
        self.rows |= {name: len(self.rows) + i for i, name in enumerate(names)}
        even = np.full((len(names), 3), UNSEEN)
        prior = np.full((len(names), 3, 3), float(self.prior))
        self.transitions = np.concatenate([self.transitions, prior])
        self.states = np.concatenate([self.states, even])
        self.priors = np.concatenate([self.priors, even])


def _normalised(alpha: Floats) -> Floats:
    """The expected transition probabilities: each column divided by its sum."""
    return np.asarray(alpha / alpha.sum(axis=1, keepdims=True), dtype=np.float64)
