"""Probe: a linear readout of the policy's own state of the prompt predicts its variance.

Idea       The policy may know what it can nearly do without being asked: ridge regression from its
           hidden state of a prompt to the variance that such prompts had in the last steps.
Equation   v_hat(x) = mean v + w . z(x), w = argmin sum (v - mean v - w . z)^2 + alpha |w|^2, with z
           the standardised state; S_t = TopB v_hat(x) (METIS, Eq. 6). The alpha, one of six, is
           chosen by cross-validation.
Acts       before rollouts
Costs      m*B forward passes of the prompt a step
Continuous ridge regression: v is defined for any reward
Reference  Linear probes: Alain and Bengio, arXiv 1610.01644; the selection is METIS's, Zheng et
           al., arXiv 2605.11235.
Deviations
1. No paper proposes it as a curriculum: it is here because METIS should be better than this.
2. `regression=logistic` regresses the pass rate p instead and takes the expected p (1 - p), which
   ranks problems of MATH better, and of DAPO no worse (docs/judge-offline.md).
3. A label keeps the state that was read when its prompt was chosen. Reading all of them again after
   each update would cost more passes than the candidates.
"""

from dataclasses import dataclass, field

from metis.core import LAST, Batch, Embed, Plan, Progress, embed, rollout
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.judges.readout import Readout
from metis.curricula.judges.regressions import Kind, regression
from metis.curricula.selection import choice_metrics, choose, decisions, explore_slots
from metis.errors import require, require_at_least


@dataclass
class Probe(Stateful):
    """Ridge regression on the policy's hidden state picks the prompts expected to vary most.

    batch, group  B prompts a step, n rollouts each
    multiplier    m: m*B candidates are read (8)
    explore       share of the batch drawn uniformly, so that labels are not only of what was chosen
    window        steps whose outcomes are the labels (20)
    depths        layers whose states are read, as shares of the network; 1 is the last
    regression    `ridge`, of the variance · `logistic`, of the pass rate; binary rewards alone
    """

    batch: int = 256
    group: int = 8
    multiplier: int = 8
    explore: float = 0.1
    window: int = 20
    depths: tuple[float, ...] = LAST
    regression: Kind = "ridge"

    readout: Readout = field(init=False, default_factory=Readout)

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require_at_least(self, {"multiplier": 1, "window": 1}, "curriculum.")
        require(0 <= self.explore <= 1, "curriculum.explore", self.explore, "use a share, 0 to 1")

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({Embed}))

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        labels = self.readout.labels
        self.readout.labels = [each for each in labels if each[0] >= progress.step - self.window]
        candidates = pool.sample(self.multiplier * self.batch)
        states = yield from embed(candidates, self.depths)
        model = regression(self.regression, pool.rewards)
        scores, metrics = self.readout.read(states, model)
        choice = choose(
            scores,
            self.batch,
            explore_slots(self.batch, self.explore),
            progress.rng("explore"),
            progress.rng("ties"),
        )
        positions = sorted(choice.explored + choice.top)
        groups = yield from rollout([candidates[i] for i in positions], self.group)
        self.readout.label([states[i] for i in positions], groups, progress.step)
        metrics |= choice_metrics(choice)
        return Batch(groups, metrics=metrics, decisions=decisions(candidates, choice, scores))
