"""What a device or a compiler cannot do, said as what to change."""

import contextlib
from collections.abc import Iterator

import torch

from metis.engines.local.policy import Policy
from metis.engines.local.settings import Local
from metis.errors import MetisError, first_line


@contextlib.contextmanager
def explained(policy: Policy, settings: Local) -> Iterator[None]:
    """For passes of the policy, forward and backward."""
    try:
        yield
    except torch.cuda.OutOfMemoryError:
        policy.recorder.forget()
        torch.cuda.empty_cache()
        raise MetisError(
            f"the GPU's memory is full: lower engine.tokens ({settings.tokens}) or "
            f"engine.rows ({settings.rows}), or set engine.checkpointing=true, and go on "
            "with --out of this run; or start another with a lower engine.max_tokens "
            f"({settings.max_tokens}) or with engine.lora=16"
        ) from None
    except RuntimeError as error:
        if not (settings.compile and _of_the_compiler(error)):
            raise
        raise MetisError(
            f"engine.compile = true: torch.compile fails here ({first_line(error)}); set "
            "engine.compile=false"
        ) from error


def _of_the_compiler(error: RuntimeError) -> bool:
    from torch._dynamo.exc import TorchDynamoException

    return isinstance(error, TorchDynamoException)
