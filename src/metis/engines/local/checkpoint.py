"""Weights, optimizers and generator on disk, and back exactly as they were."""

import contextlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from metis.engines.local.model_folder import ADAPTER, load_model, save_model
from metis.engines.local.policy import LOADING_ERRORS, Policy
from metis.engines.local.predictors import Learner
from metis.errors import first_line


def save_training(
    folder: Path, policy: Policy, optimizer: torch.optim.Optimizer, generator: torch.Generator
) -> None:
    """The model as a Hugging Face folder, and beside it what else training changes."""
    save_model(folder, policy)
    torch.save(
        {"optimizer": optimizer.state_dict(), "generator": generator.get_state()},
        folder / "optimizer.pt",
    )


def load_training(
    folder: Path, policy: Policy, optimizer: torch.optim.Optimizer, generator: torch.Generator
) -> None:
    """Bring back what `save_training` wrote."""
    load_weights(folder, policy)
    path = folder / "optimizer.pt"
    with _reading(path):
        saved: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    groups = saved["optimizer"]["param_groups"]
    for before, now in zip(groups, optimizer.param_groups, strict=True):
        before |= {knob: now[knob] for knob in now if knob != "params"}
    optimizer.load_state_dict(saved["optimizer"])
    state = saved["generator"]
    if state.shape == generator.get_state().shape:
        generator.set_state(state)
    else:  # of another kind of device: new draws, but the same whenever it is resumed from here
        generator.manual_seed(zlib.crc32(state.numpy().tobytes()))


def load_weights(folder: Path, policy: Policy) -> None:
    """Bring back the weights alone."""
    whole = folder / (ADAPTER if policy.adapted else "model.safetensors")
    with _reading(whole if whole.exists() else folder):
        load_model(folder, policy)


def save_learner(folder: Path, number: int, learner: Learner) -> None:
    """A learned model beside the policy; numbers tell several apart."""
    torch.save(learner.state_dict(), folder / f"learner-{number}.pt")


def load_learner(folder: Path, number: int, learner: Learner) -> None:
    """Bring back what `save_learner` wrote."""
    path = folder / f"learner-{number}.pt"
    with _reading(path):
        saved = torch.load(path, map_location="cpu", weights_only=True)
    learner.load_state_dict(saved)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """A damaged file is an OSError that names it, whatever its format makes of it."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (*LOADING_ERRORS, EOFError, UnpicklingError) as error:
        raise OSError(f"{str(path)!r} cannot be read: {first_line(error)}") from None
