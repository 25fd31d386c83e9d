"""Rollouts with vLLM, colocated in this process on the GPU that also trains.

It sleeps during the update; then the new weights are synced and the prefix cache is reset. Its own
log-probabilities differ slightly: the update recomputes them.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from metis.core import Counts, Sampling, each_count
from metis.engines.local.generate.sampling import SampledReply
from metis.engines.local.generate.weights import merged
from metis.engines.local.model.checkpoint import save_settings
from metis.engines.local.model.policy import Policy, pick_device
from metis.engines.local.settings import LocalSettings
from metis.engines.tokens.packing import prefilled
from metis.errors import MetisError, first_line, pip_install

LEAST_FREE = 0.05
"""Share of the GPU that must be free for vLLM to start with a fixed KV cache size."""
LONGEST = 32768
"""Upper limit of vLLM's max_model_len."""


def require_vllm(settings: LocalSettings) -> None:
    """Refuse generation=vllm where vLLM does not run, before any weights are loaded."""
    if settings.generation != "vllm":
        return
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if settings.top_p == 1:  # do not compile FlashInfer's top-p kernels
        os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")
    try:
        import vllm  # noqa: F401
    except (ImportError, OSError) as error:
        raise MetisError(
            f"engine.generation = 'vllm': vLLM cannot be imported ({first_line(error)}): "
            f"{pip_install('vllm')}, or set engine.generation=transformers"
        ) from None
    if pick_device(settings.device).type != "cuda":
        raise MetisError("engine.generation = 'vllm': needs a GPU; use transformers here")


class VllmSampler:
    """Samples with vLLM; `sync` hands it the policy's weights."""

    def __init__(self, policy: Policy, settings: LocalSettings) -> None:
        from vllm import LLM

        self.processed = 0
        self.context = policy.context = min(policy.context, LONGEST)
        with tempfile.TemporaryDirectory() as folder, _room_for_vllm(settings):
            _write_model(policy, folder)
            self.llm = LLM(
                model=folder,
                dtype="bfloat16",
                **_memory(settings),
                enforce_eager=settings.vllm_eager,
                enable_prefix_caching=True,
                enable_sleep_mode=settings.vllm_sleep,
                max_model_len=self.context,
                # At the temperature of the rollouts, as in the update.
                logprobs_mode=f"{'raw' if settings.temperature == 1 else 'processed'}_logprobs",
            )
        self.sleeps = settings.vllm_sleep
        self.awake = True

    def sample(
        self,
        prompts: Sequence[list[int]],
        copies: Counts,
        sampling: Sampling,
        generator: torch.Generator,
    ) -> Iterator[tuple[int, SampledReply]]:
        """Sample `copies` replies per prompt, all at once.

        vLLM uses this process's CUDA generator, seeded from ours at every call; a seed per request
        would make it sample row by row.
        """
        from vllm import SamplingParams, TokensPrompt

        self._wake()
        torch.cuda.manual_seed(_seed(generator))
        parameters = [
            SamplingParams(
                n=count,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                max_tokens=min(sampling.max_tokens, self.context - len(prompt)),
                stop=list(sampling.stop) or None,
                detokenize=bool(sampling.stop),
                logprobs=0,
            )
            for prompt, count in zip(prompts, each_count(copies, prompts), strict=True)
        ]
        asked = [TokensPrompt(prompt_token_ids=prompt) for prompt in prompts]
        answers = self.llm.generate(asked, parameters, use_tqdm=False)
        replies = [_reply(output) for answer in answers for output in answer.outputs]
        self.processed += prefilled(prompts) + sum(len(reply.tokens) for reply in replies)
        return enumerate(replies)

    def sync(self, policy: Policy) -> None:
        """Sync the policy's weights to vLLM."""
        self._wake()
        self.llm.apply_model(lambda model: model.load_weights(merged(policy, torch.bfloat16)))
        self.llm.reset_prefix_cache()

    def sleep(self) -> None:
        """Free the memory of KV cache and weights during the update."""
        if self.awake and self.sleeps:
            self.llm.sleep(level=1)
            self.awake = False

    def _wake(self) -> None:
        if not self.awake:
            torch.cuda.empty_cache()
            self.llm.wake_up()
            self.awake = True


@contextmanager
def _room_for_vllm(settings: LocalSettings) -> Iterator[None]:
    """Turn vLLM's memory errors into a message that names the setting."""
    try:
        yield
    except ValueError as error:
        if "memory" not in str(error).lower():
            raise
        key, value = settings.vllm_bound
        raise MetisError(
            f"{key} = {value}: vLLM does not start with that much GPU memory "
            f"({first_line(error)}); set another (metis eval: --vllm-cache), or engine.lora=16, "
            "whose training takes less"
        ) from None


def _memory(settings: LocalSettings) -> dict[str, float]:
    """vLLM's memory arguments.

    With gpu_memory_utilization vLLM profiles the free memory, which other processes disturb; with a
    fixed KV cache size it only requires that share to be free.
    """
    if not settings.vllm_cache:
        return {"gpu_memory_utilization": settings.vllm_memory}
    size = int(settings.vllm_cache * (1 << 30))
    return {"gpu_memory_utilization": LEAST_FREE, "kv_cache_memory_bytes": size}


def _seed(generator: torch.Generator) -> int:
    return int(torch.randint(1 << 62, (1,), device=generator.device, generator=generator))


def _reply(output: Any) -> SampledReply:
    tokens = [int(token) for token in output.token_ids]
    logprobs = [
        float(row[token].logprob) for row, token in zip(output.logprobs, tokens, strict=True)
    ]
    return SampledReply(tokens, logprobs, "stop" if output.finish_reason == "stop" else "length")


def _write_model(policy: Policy, folder: str) -> None:
    """Save the policy as a folder that vLLM can load."""
    from safetensors.torch import save_file

    policy.base.config.save_pretrained(folder)
    save_settings(Path(folder), policy)
    tied = policy.base.config.get_text_config().tie_word_embeddings
    weights = {
        name: value.contiguous().cpu()
        for name, value in merged(policy, torch.bfloat16)
        if not (tied and name == "lm_head.weight")
    }
    save_file(weights, f"{folder}/model.safetensors", metadata={"format": "pt"})
