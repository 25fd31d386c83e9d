"""Turns out-of-memory and compiler errors into messages that name the setting to change."""

import contextlib
from collections.abc import Iterator

import torch

from metis.engines.local.model.policy import Policy
from metis.engines.local.settings import LocalSettings
from metis.errors import MetisError, first_line


@contextlib.contextmanager
def device_remedies(settings: LocalSettings, policy: Policy | None = None) -> Iterator[None]:
    """Wraps everything that uses the device: loading weights, forward, backward, vLLM."""
    try:
        yield
    except torch.cuda.OutOfMemoryError:
        if policy is not None:
            policy.recorder.forget()
        torch.cuda.empty_cache()
        raise MetisError(_full(settings)) from None
    except RuntimeError as error:
        if not (settings.compile and _of_the_compiler(error)):
            raise
        raise MetisError(
            f"engine.compile = true: torch.compile fails here ({first_line(error)}); set "
            "engine.compile=false"
        ) from error


def _full(settings: LocalSettings) -> str:
    shared = settings.generation == "vllm"
    beside = "{} ({}), ".format(*settings.vllm_bound) if shared else ""
    asleep = "engine.vllm_sleep=true or " if shared and not settings.vllm_sleep else ""
    return (
        f"GPU out of memory: lower {beside}engine.tokens ({settings.tokens}) or "
        f"engine.rows ({settings.rows}), or set {asleep}engine.checkpointing=true, and resume "
        "with --out of this run; or start another with a lower engine.max_tokens "
        f"({settings.max_tokens}), with engine.lora=16 or with a smaller engine.model"
    )


def _of_the_compiler(error: RuntimeError) -> bool:
    from torch._dynamo.exc import TorchDynamoException

    return isinstance(error, TorchDynamoException)
