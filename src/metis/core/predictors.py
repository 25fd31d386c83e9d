"""Predictors: auxiliary models that predict an outcome of a prompt, such as its pass rate.

These are descriptions. The engine builds the model at the first `Predict` or `Fit` that names one,
trains it separately from the policy (Adam, no weight decay), and saves it in its checkpoint.
Targets are in [0, 1]. So are predictions, except with `loss="mse"`, whose output is unbounded.
"""

import math
from dataclasses import dataclass
from typing import Literal

from metis.errors import require, require_at_least


@dataclass(frozen=True, slots=True)
class ValueModel:
    """A value model: a scalar MLP head on the hidden state of the prompt's last token.

    backbone       `separate`: a copy of the initial policy, trained with the head · `policy`: the
                   policy's own hidden state, with no gradient to the policy
    hidden         width of the head
    loss           `mse` on the value, or `bce` on its logit
    learning_rate  of Adam
    minibatch      prompts per optimizer step
    epochs         epochs over the targets of a `Fit`
    clip           maximum gradient norm; 0 is no clipping
    """

    backbone: Literal["separate", "policy"] = "separate"
    hidden: int = 512
    loss: Literal["mse", "bce"] = "mse"
    learning_rate: float = 1e-4
    minibatch: int = 64
    epochs: int = 1
    clip: float = 1.0

    def __post_init__(self) -> None:
        require_at_least(self, {"hidden": 1, "minibatch": 1, "epochs": 1, "clip": 0})
        _require_rate(self.learning_rate)


@dataclass(frozen=True, slots=True)
class AttentionModel:
    """Cross-attention from a prompt to reference prompts with known values (the evidence).

    The prediction is the attention-weighted mean of those values, calibrated. A prompt never
    attends to itself, so that evidence can also be targets. Queries and keys are made from the
    policy's hidden states of the prompts' last tokens.

    width, layers  of the two MLPs that make queries and keys
    dropout        in those MLPs, during training
    learning_rate  of Adam, on the binary cross-entropy
    minibatch      prompts per optimizer step
    epochs         epochs over the targets of a `Fit`
    clip           maximum gradient norm; 0 is no clipping
    """

    width: int = 896
    layers: int = 3
    dropout: float = 0.1
    learning_rate: float = 1e-3
    minibatch: int = 256
    epochs: int = 20
    clip: float = 0.0

    def __post_init__(self) -> None:
        least = {"width": 1, "layers": 1, "minibatch": 1, "epochs": 1, "clip": 0}
        require_at_least(self, least)
        require(0 <= self.dropout < 1, "dropout", self.dropout, "use a number from 0 to below 1")
        _require_rate(self.learning_rate)


Predictor = ValueModel | AttentionModel


def has_own_backbone(model: Predictor) -> bool:
    """True if the predictor has its own backbone, instead of reading the policy's states."""
    return isinstance(model, ValueModel) and model.backbone == "separate"


def _require_rate(rate: float) -> None:
    require(math.isfinite(rate) and rate > 0, "learning_rate", rate, "use a number above 0")
