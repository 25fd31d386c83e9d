"""PCL: a value model predicts each prompt's pass rate; those nearest to one half are trained on.

Idea       A model of the policy's size reads m*B prompts and predicts their mean reward; the B of
           medium difficulty are rolled out, and train it.
Equation   S_t = argmin over |S| = B of the sum of |V(x) - tau|; then one pass over S_t that
           minimises the sum of (V(x) - mean reward)^2.
Acts       before rollouts
Costs      m*B forward passes of the value model a step, its training
Continuous V learns the variance; the highest are taken
Reference  Gao et al., Prompt Curriculum Learning for Efficient LLM Post-Training, arXiv 2510.01135;
           preset "paper": METIS, App. A.5 and A.6.
Deviations
1. The value model's settings and code are not public; its head, learning rate and mini-batches are
   those that METIS reports. Its one update per training step, of batch size 64, is read as one
   epoch over the B prompts in mini-batches of 64: a single one would leave most labels unused.
   Gradients are clipped at norm 1, as is usual.
2. Continuous rewards have no pass rate: V and the selection are then as METIS extends them.
3. An untrained head predicts 0 for every prompt, so that the first batch is sampled uniformly.
4. backbone = "policy", loss = "bce" and explore are additions, off by default: a head on the
   policy's hidden state needs no second model; a sigmoid stays in [0, 1]; without `explore`, V is
   only trained on prompts that it selected.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from metis.core import Batch, Group, Plan, Progress, fit, predict, rollout
from metis.core.needs import Needs
from metis.core.pool import Pool, Rewards
from metis.core.predictors import ValueModel
from metis.core.state import Stateful
from metis.curricula.selection import choice_metrics, choose, decisions, explore_slots
from metis.errors import require, require_at_least


@dataclass
class Pcl(Stateful):
    """A value model selects the prompts of medium difficulty.

    batch, group   B prompts a step, n rollouts each
    multiplier     k: the value model reads k*B candidates (4; METIS 8)
    target         tau: the target pass rate (0.5)
    explore        share of the batch that is sampled uniformly (0)
    backbone       `separate`: a second model like the policy · `policy`: the policy's hidden state
    hidden         width of the head (512)
    loss           `mse`, or `bce` on the logit
    learning_rate  of the value model (1e-4)
    minibatch      prompts per optimizer step of the value model (64)
    """

    presets: ClassVar = {
        "published": {},
        "paper": {
            "multiplier": 8,
            "target": 0.5,
            "explore": 0.0,
            "backbone": "separate",
            "hidden": 512,
            "loss": "mse",
            "learning_rate": 1e-4,
            "minibatch": 64,
        },
    }
    """`paper` is PCL as METIS compares with it (App. A.6)."""

    batch: int = 256
    group: int = 8
    multiplier: int = 4
    target: float = 0.5
    explore: float = 0.0
    backbone: Literal["separate", "policy"] = "separate"
    hidden: int = 512
    loss: Literal["mse", "bce"] = "mse"
    learning_rate: float = 1e-4
    minibatch: int = 64

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require_at_least(self, {"multiplier": 1}, "curriculum.")
        require(0 <= self.target <= 1, "curriculum.target", self.target, "use a number, 0 to 1")
        require(0 <= self.explore <= 1, "curriculum.explore", self.explore, "use a share, 0 to 1")
        self._model()

    def _model(self) -> ValueModel:
        return ValueModel(self.backbone, self.hidden, self.loss, self.learning_rate, self.minibatch)

    @property
    def needs(self) -> Needs:
        return Needs(model=self._model())

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        candidates = pool.sample(self.multiplier * self.batch)
        values = yield from predict(candidates, self._model())
        choice = choose(
            [self._score(value, pool.rewards) for value in values],
            self.batch,
            explore_slots(self.batch, self.explore),
            progress.rng("explore"),
            progress.rng("ties"),
        )
        chosen = [candidates[i] for i in sorted(choice.explored + choice.top)]
        groups = yield from rollout(chosen, self.group)
        metrics = yield from self._learn(groups, pool.rewards)
        metrics |= choice_metrics(choice)
        return Batch(groups, metrics=metrics, decisions=decisions(candidates, choice, values))

    def _score(self, value: float, rewards: Rewards) -> float:
        """The score to maximise: closeness to the target, or the predicted variance."""
        return value if rewards == "continuous" else -abs(value - self.target)

    def _learn(self, groups: Sequence[Group], rewards: Rewards) -> Plan[dict[str, float]]:
        outcomes = [g.variance if rewards == "continuous" else g.mean for g in groups]
        labelled = [(g, v) for g, v in zip(groups, outcomes, strict=True) if v is not None]
        prompts, targets = [g.prompt for g, _ in labelled], [v for _, v in labelled]
        error = yield from fit(prompts, targets, self._model())
        return {"select/value_loss": error} if labelled else {}
