"""Predictors: models that an engine trains for a curriculum, of an outcome of prompts.

These values only describe a model. An engine makes one at the first `Predict` or `Fit` that names
it, keeps one for every description, trains it apart from the policy, and saves it in its own
checkpoint. Targets are numbers in [0, 1], such as a pass rate. Predictions are too, but for a model
that learns the value itself (`mse`), whose own may lie outside. All are trained by Adam, without
decay of weights.
"""

import math
from dataclasses import dataclass
from typing import Literal

from metis.errors import require, require_at_least


@dataclass(frozen=True, slots=True)
class ValueModel:
    """A scalar head on a language model's state of the prompt's last token.

    backbone       `separate`: a model of its own that starts as the policy did and is trained with
                   the head · `policy`: the policy's own state, which the head leaves alone
    hidden         width of the head
    loss           `mse` on the value itself, or `bce` on its logit
    learning_rate  of Adam
    minibatch      prompts in one of its optimizer steps
    epochs         passes over the targets of a `Fit`
    clip           norm that gradients are cut to; 0 is none
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
    """Attends from a prompt to the prompts of the evidence, and reads the value off theirs.

    A prompt never attends to itself, so that evidence can serve as targets too. Queries and
    references are the policy's own states of the prompts' last tokens.

    width, layers  of the two towers that make queries and references
    dropout        between the layers of the towers, while they are trained
    learning_rate  of Adam, on the binary cross-entropy
    minibatch      prompts in one of its optimizer steps
    epochs         passes over the targets of a `Fit`
    clip           norm that gradients are cut to; 0 is none
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


def separate(model: Predictor) -> bool:
    """True if a model has a backbone of its own, rather than the policy."""
    return isinstance(model, ValueModel) and model.backbone == "separate"


def _require_rate(rate: float) -> None:
    require(math.isfinite(rate) and rate > 0, "learning_rate", rate, "use a number above 0")
