"""The knobs of the verl engine, beside those that every engine has that trains a model."""

from dataclasses import dataclass
from typing import ClassVar

from metis.engines.learning import Learning
from metis.errors import require, require_at_least


@dataclass(frozen=True)
class Verl(Learning):
    """A model on one or more GPUs, trained by verl. A curriculum that judges needs temperature 1.

    nodes          machines
    gpus           GPUs of each
    generation     verl's rollout backend: vllm, or one that is registered with verl
    vllm_memory    share of a GPU that the rollout servers may use
    tensor         tensor parallelism: GPUs of one rollout server
    max_prompt     longest prompt; longer ones are left out, of the held-out prompts too: a run says
                   how many
    context        longest sequence on a rollout server (its max_model_len), judge prompts
                   included, at most `tokens`; 0 is room for a rollout, and for five prompts
    checkpointing  recompute activations in the backward pass to save memory
    overrides      more of verl's own settings, as key=value
    """

    nodes: int = 1
    gpus: int = 1
    generation: str = "vllm"
    vllm_memory: float = 0.5
    tensor: int = 1
    max_prompt: int = 1024
    context: int = 0
    checkpointing: bool = True
    overrides: tuple[str, ...] = ()

    MAY_CHANGE: ClassVar = ("vllm_memory", "tokens", "checkpointing", "reward_timeout")
    """Knobs that a resumed run may change; a learning rate verl would take from its checkpoint."""

    @property
    def longest(self) -> int:
        """Tokens of a rollout."""
        return self.episode_tokens or self.max_tokens

    def __post_init__(self) -> None:
        super().__post_init__()
        least = {"nodes": 1, "gpus": 1, "tensor": 1, "max_prompt": 1}
        require_at_least(self, least, "engine.")
        self._require_above_zero("gradient_clip")
        self._require_share("vllm_memory")
        count = self.nodes * self.gpus
        require(
            count % self.tensor == 0, "engine.tensor", self.tensor, f"it must divide {count} GPUs"
        )
        require(
            self.longest >= self.max_tokens,
            "engine.episode_tokens",
            self.episode_tokens,
            f"use at least engine.max_tokens = {self.max_tokens}",
        )
        room = self.max_prompt + self.longest
        if not self.context:
            object.__setattr__(self, "context", max(room, 5 * self.max_prompt))
        require(
            self.context >= room,
            "engine.context",
            self.context,
            f"use at least max_prompt and a rollout, {room}",
        )
        require(
            self.tokens >= self.context,
            "engine.tokens",
            self.tokens,
            f"use at least engine.context = {self.context}",
        )
        for override in self.overrides:
            require(
                "trainer_mode" not in override,
                "engine.overrides",
                override,
                "leave it out: the trainer is METIS's own, and an asynchronous one does not wait "
                "for the current weights, which a curriculum judges with",
            )
