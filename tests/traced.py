"""torch.compile with another backend than Inductor, which needs a compiler of the machine."""

import torch
from torch._dynamo.utils import counters

from metis.engines.local.model import compiling


def compile_with(monkeypatch, backend) -> None:
    """Trace as usual, and let a backend make the code."""
    compiler = torch.compile
    monkeypatch.setattr(
        torch,
        "compile",
        lambda compiled, options, **named: compiler(compiled, backend=backend, **named),
    )
    compiling.compiled.cache_clear()
    torch._dynamo.reset()
    counters.clear()
