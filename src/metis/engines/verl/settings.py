"""verl-engine settings, on top of `TrainingSettings`."""

from dataclasses import dataclass
from typing import ClassVar

from metis.engines.training_settings import TrainingSettings
from metis.errors import require, require_at_least


@dataclass(frozen=True)
class VerlSettings(TrainingSettings):
    """One model on one or more GPUs, trained by verl. Curricula with a judge need temperature=1.

    nodes          number of machines
    gpus           GPUs per machine
    generation     verl's rollout backend: vllm, or one registered with verl
    vllm_memory    share of a GPU for the rollout servers (gpu_memory_utilization)
    tensor         tensor parallelism of a rollout server
    max_prompt     maximum tokens of a prompt; longer ones, also held-out ones, are dropped, with a
                   notice
    context        max_model_len of the rollout servers, judge prompts included; at most `tokens`; 0
                   is the length of a rollout or of five prompts, whichever is more
    checkpointing  gradient checkpointing: recompute activations in the backward pass
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

    MAY_CHANGE: ClassVar = (
        *("nodes", "gpus"),
        *("vllm_memory", "tokens", "checkpointing", "reward_timeout"),
    )
    """Settings that may change on resume (verl takes the learning rate from the checkpoint)."""

    @property
    def longest(self) -> int:
        """Maximum tokens of a rollout."""
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
                "leave it out: METIS has its own trainer; an asynchronous one would judge with old "
                "weights",
            )
