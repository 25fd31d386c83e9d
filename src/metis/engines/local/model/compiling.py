"""torch.compile for the layers of a model and for functions of its LM head."""

import functools
from collections.abc import Callable
from typing import Any

import torch

from metis.errors import MetisError


def compile_layers(backbone: Any) -> None:
    """Compile layer by layer: all layers share the compiled code."""
    layers = getattr(backbone, "layers", None)
    if layers is None:
        raise MetisError(
            f"engine.compile = true: {type(backbone).__name__} has no list of layers; set "
            "engine.compile=false"
        )
    for layer in layers:
        layer.compile(dynamic=True, options=_options())


@functools.cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled for tensors of any size."""
    made: Callable[..., Any] = torch.compile(function, dynamic=True, options=_options())
    return made


def _options() -> dict[str, Any]:
    # Inductor's fused reductions get dynamic sizes wrong that are sums, as with several segments.
    fused = "triton.mix_order_reduction"
    return {fused: False} if fused in torch._inductor.list_options() else {}
