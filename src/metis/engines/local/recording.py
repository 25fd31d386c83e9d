"""Work of a GPU that comes up again is recorded, and replayed from then on.

A small network is done with a kernel before Python has launched the next; a recording (a CUDA
graph) launches all of them at once. It only serves inputs of the same shapes.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import torch

KEPT = 16
"""Recordings at a time; the oldest makes room."""


class Recording(NamedTuple):
    """A graph, the tensors it reads, and the one it writes."""

    graph: Any
    inputs: list[torch.Tensor]
    output: torch.Tensor


class Recorder:
    """Runs functions of tensors that need no gradients."""

    def __init__(self) -> None:
        self.recordings: dict[Hashable, Recording | None] = {}
        """By kind of work; None is one that was run a single time."""
        self.pool: Any = None
        self.works = torch.cuda.is_available()

    def run(
        self, kind: Hashable, function: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        """`function(*inputs)`, where `kind` says what, but for the inputs' values, it depends on.

        The result holds until the next call.
        """
        if not self.works or kind not in self.recordings:
            self._remember(kind, None)
            return function(*inputs)
        recording = self.recordings[kind] or self._record(function, inputs)
        if recording is None:
            return function(*inputs)
        self._remember(kind, recording)
        for tensor, given in zip(recording.inputs, inputs, strict=True):
            tensor.copy_(given)
        recording.graph.replay()
        return recording.output

    def _remember(self, kind: Hashable, recording: Recording | None) -> None:
        self.recordings.pop(kind, None)
        self.recordings[kind] = recording
        if len(self.recordings) > KEPT:
            del self.recordings[next(iter(self.recordings))]

    def _record(
        self, function: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> Recording | None:
        """None where the function does what cannot be recorded: nothing is, from then on."""
        own = [tensor.clone() for tensor in inputs]
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self.pool):
                output = function(*own)
        except RuntimeError:
            self.works = False
            return None
        self.pool = graph.pool()
        return Recording(graph, own, output)
