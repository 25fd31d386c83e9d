"""Holds a process of one node in the middle of a step, so that a test can kill the node then.

METIS_TESTS_HELD is PHASE:NODE:RUN. Once the run has a checkpoint, a process of the node with that
number that comes to the phase writes a file beside the run, named like the phase, and goes no
further. Where the file is there, nothing is held.
"""

import os
import threading
from pathlib import Path
from typing import Any

import torch

NAME = "METIS_TESTS_HELD"
NUMBER = "METIS_TESTS_NODE"
"""The number of a node, from 1, in the environment of its processes."""


def at(phase: str) -> None:
    """Called by a process that comes to a phase."""
    if _wanted(phase):
        _reached().touch()
        threading.Event().wait()


def _wanted(phase: str) -> bool:
    wanted, number, run = os.environ.get(NAME, "::").split(":")
    if (phase, os.environ.get(NUMBER)) != (wanted, number) or _reached().exists():
        return False
    return Path(run, "verl", "latest_checkpointed_iteration.txt").exists()


def _reached() -> Path:
    phase, _, run = os.environ[NAME].split(":")
    return Path(run).with_name(phase)


def _hold_updates() -> None:
    """Before a gradient, which the other workers wait for."""
    backward = torch.Tensor.backward

    def held(self: torch.Tensor, *arguments: Any, **options: Any) -> None:
        at("update")
        backward(self, *arguments, **options)

    torch.Tensor.backward = held  # type: ignore[method-assign]


def _hold_checkpoints() -> None:
    """With a file of a checkpoint half written."""
    save = torch.save

    def held(what: Any, path: Any, *arguments: Any, **options: Any) -> None:
        save(what, path, *arguments, **options)
        if "global_step_" in str(path) and _wanted("checkpoint"):
            whole = Path(path).read_bytes()
            Path(path).write_bytes(whole[: len(whole) // 2])
            at("checkpoint")

    torch.save = held


if NAME in os.environ:
    _hold_updates()
    _hold_checkpoints()
