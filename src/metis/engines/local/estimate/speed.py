"""The device of a run, and its speed: two short measurements, without a model."""

import time
from collections.abc import Callable

import torch

from metis.engines.local.estimate.shape import ModelShape
from metis.engines.local.estimate.step import Device

LASTS = 0.1
"""Seconds of a measurement."""
MANY = 512
"""Tokens of a matrix product."""
READ = 1 << 26
"""Elements that are read to measure the bandwidth."""


def on_gpu(name: str) -> bool:
    """True if the device of that name is a GPU of CUDA."""
    return torch.cuda.is_available() if name == "auto" else name.startswith("cuda")


def measured(name: str, shape: ModelShape, rows: int) -> Device:
    """The named device, its speed measured for a model of this shape that generates `rows`."""
    gpu = on_gpu(name)
    place = torch.device("cuda" if gpu else "cpu")
    dtype = torch.bfloat16 if gpu else torch.float32
    weights = torch.randn(shape.hidden, shape.inner, device=place, dtype=dtype)
    much = torch.ones(READ if gpu else READ // 8, device=place)

    free, whole = torch.cuda.mem_get_info() if gpu else (0, 0)

    def products(tokens: int) -> float:
        states = torch.randn(tokens, shape.hidden, device=place, dtype=dtype)
        return 2.0 * tokens * weights.numel() * _rate(lambda: states @ weights, gpu)

    return Device(
        gpu=gpu,
        memory=float(whole),
        free=float(free),
        products=products(16 * MANY if gpu else MANY),
        decoding=products(rows),
        bandwidth=4.0 * much.numel() * _rate(much.sum, gpu),
    )


def _rate(run: Callable[[], object], gpu: bool) -> float:
    """Runs per second."""
    run()
    runs, spent = 1, 0.0
    while spent < LASTS:
        runs *= 2
        started = _now(gpu)
        for _ in range(runs):
            run()
        spent = _now(gpu) - started
    return runs / spent


def _now(gpu: bool) -> float:
    if gpu:
        torch.cuda.synchronize()
    return time.perf_counter()
