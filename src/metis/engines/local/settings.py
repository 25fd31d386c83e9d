"""Local-engine settings, on top of `TrainingSettings`."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from metis.engines.training_settings import TrainingSettings
from metis.errors import require_at_least

SLOW = 32
"""Rollouts of a round on a CPU, where they take long."""
SCHEDULED = 2048
"""Rollouts of a round with vLLM, which schedules them itself."""


@dataclass(frozen=True)
class LocalSettings(TrainingSettings):
    """One model on one device. `gradient_clip=0` is no clipping; `tokens` includes padding.

    device         cpu, cuda, mps, or auto
    generation     vllm (one GPU; weights are synced after each update), transformers, or auto:
                   vllm where it is installed and the run is long enough to pay for its start
    rows           maximum sequences generated at once; vLLM is handed at least 2048, and schedules
                   them itself
    checkpointing  gradient checkpointing: recompute activations in the backward pass
    compile        torch.compile the layers: slow first steps, faster ones after; for long runs on a
                   GPU
    reward_workers rewards computed concurrently, each in a thread
    vllm_memory    share of the GPU that vLLM may use (gpu_memory_utilization)
    vllm_cache     size of vLLM's KV cache in GiB, for several runs on one GPU; 0 is what
                   vllm_memory leaves
    vllm_sleep     vLLM frees its memory during updates; not needed for a small model
    vllm_eager     start vLLM without CUDA graphs: faster start, slower decoding
    """

    device: str = "auto"
    generation: Literal["auto", "transformers", "vllm"] = "auto"
    rows: int = 256
    checkpointing: bool = False
    compile: bool = False
    reward_workers: int = 64
    vllm_memory: float = 0.4
    vllm_cache: float = 0.0
    vllm_sleep: bool = True
    vllm_eager: bool = False

    MAY_CHANGE: ClassVar = (
        *(
            "device",
            "tokens",
            "rows",
            "checkpointing",
            "compile",
            "reward_timeout",
            "reward_workers",
        ),
        *("vllm_memory", "vllm_cache", "vllm_sleep", "vllm_eager"),
        "learning_rate",
    )
    """Settings that may change on resume: speed, memory, and the learning rate."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, {"rows": 1, "reward_workers": 1}, "engine.")
        self._require_not_negative("vllm_cache")
        self._require_share("vllm_memory")

    def round(self, device: str) -> int:
        """Rollouts that are asked for at once on a device, where each round is saved."""
        if self.generation == "vllm":
            return max(self.rows, SCHEDULED)
        return min(self.rows, SLOW) if device == "cpu" else self.rows

    @property
    def vllm_bound(self) -> tuple[str, float]:
        """The setting that bounds vLLM's memory, and its value."""
        name = "vllm_cache" if self.vllm_cache else "vllm_memory"
        return f"engine.{name}", getattr(self, name)
