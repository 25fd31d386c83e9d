"""The knobs of the local engine, beside those that every engine has that trains a model."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from metis.engines.learning import Learning
from metis.errors import require_at_least


@dataclass(frozen=True)
class Local(Learning):
    """A model on one machine. `gradient_clip=0` is no clipping; `tokens` counts padding.

    device         cpu, cuda, mps, or auto
    generation     transformers, or vllm (one GPU; weights are synced after each update)
    rows           sequences generated at once
    checkpointing  recompute activations in the backward pass to save memory
    compile        compile the layers with torch.compile: slow first steps, quicker ones after; for
                   long runs on a GPU
    reward_workers rewards computed at a time, each in a thread
    vllm_memory    share of the GPU that vLLM may use
    vllm_cache     GiB of its KV cache, whatever else is on the GPU: for several runs on one; 0 is
                   what vllm_memory leaves
    vllm_sleep     let vLLM give its memory back during updates; a small model needs no sleep
    vllm_eager     start vLLM without CUDA graphs: a quick start, slower decoding
    """

    device: str = "auto"
    generation: Literal["transformers", "vllm"] = "transformers"
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
    """Knobs that a resumed run may change: speed, memory, and the remedy for a diverging loss."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, {"rows": 1, "reward_workers": 1}, "engine.")
        self._require_not_negative("vllm_cache")
        self._require_share("vllm_memory")

    @property
    def vllm_bound(self) -> tuple[str, float]:
        """The knob that bounds vLLM's memory, and its value."""
        knob = "vllm_cache" if self.vllm_cache else "vllm_memory"
        return f"engine.{knob}", getattr(self, knob)
