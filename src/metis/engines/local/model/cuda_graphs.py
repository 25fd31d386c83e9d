"""CUDA graphs for repeated forward passes of the same shapes.

Small models are bound by kernel launches; a CUDA graph launches all kernels at once.
"""

import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

KEPT = 16
"""Graphs kept; the least recently used goes first."""

SEEN = 1024
"""Number of keys remembered as run once, before they are captured."""


class Recording(NamedTuple):
    """A captured CUDA graph with its input and output tensors."""

    graph: Any
    inputs: list[torch.Tensor]
    output: torch.Tensor


class GraphRecorder:
    """Captures functions of tensors (no gradients) as CUDA graphs, and replays them."""

    def __init__(self, device: torch.device, kept: int = KEPT) -> None:
        self.device, self.kept = device, kept
        self.works = device.type == "cuda"
        self.seen: set[Hashable] = set()
        self.recordings: dict[Hashable, Recording] = {}

    def run(
        self, key: Hashable, function: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        """`function(*inputs)`; `key` identifies everything it depends on except input values.

        The result is valid until the next call.
        """
        if not self.works:
            return function(*inputs)
        recording = self.recordings.pop(key, None)
        if recording is None and self._again(key):
            recording = self._record(function, inputs)
        if recording is None:
            return function(*inputs)
        self.recordings[key] = recording
        if len(self.recordings) > self.kept:
            del self.recordings[next(iter(self.recordings))]
        for tensor, given in zip(recording.inputs, inputs, strict=True):
            tensor.copy_(given)
        recording.graph.replay()
        return recording.output

    def _again(self, key: Hashable) -> bool:
        """True if this key was run before."""
        if key in self.seen:
            return True
        if len(self.seen) == SEEN:
            self.seen.clear()
        self.seen.add(key)
        return False

    def forget(self) -> None:
        """Free all captured graphs."""
        self.recordings.clear()

    def _record(
        self, function: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> Recording | None:
        """Capture a graph; None if that fails, which turns capturing off."""
        own = [tensor.clone() for tensor in inputs]
        graph = torch.cuda.CUDAGraph()
        pool = next((recording.graph.pool() for recording in self.recordings.values()), None)
        with torch.cuda.device(self.device):
            stream = torch.cuda.current_stream()
            try:
                with _never_waiting():
                    function(*own)
                with torch.cuda.graph(graph, pool, capture_error_mode="thread_local"):
                    output = function(*own)
            except RuntimeError:
                torch.cuda.set_stream(stream)
                self.works = False
                self.forget()
                return None
        return Recording(graph, own, output)


@contextmanager
def _never_waiting() -> Iterator[None]:
    """Make GPU synchronisation an error, found here before it breaks a capture."""
    usual = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype")
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(usual)
