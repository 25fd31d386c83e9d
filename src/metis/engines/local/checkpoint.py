"""Saves and loads weights, optimizer and random generator."""

import zlib
from pathlib import Path
from typing import Any

import torch

from metis.engines.loading import reading
from metis.engines.local.model.folder import ADAPTER, load_model, save_model
from metis.engines.local.model.policy import Policy


def save_training(
    folder: Path, policy: Policy, optimizer: torch.optim.Optimizer, generator: torch.Generator
) -> None:
    """Save the model as a Hugging Face folder, with optimizer and generator state beside it."""
    save_model(folder, policy)
    torch.save(
        {"optimizer": optimizer.state_dict(), "generator": generator.get_state()},
        folder / "optimizer.pt",
    )


def load_training(
    folder: Path, policy: Policy, optimizer: torch.optim.Optimizer, generator: torch.Generator
) -> None:
    """Load what `save_training` wrote."""
    load_weights(folder, policy)
    path = folder / "optimizer.pt"
    with reading(path):
        saved: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    groups = saved["optimizer"]["param_groups"]
    for before, now in zip(groups, optimizer.param_groups, strict=True):
        before |= {option: now[option] for option in now if option != "params"}
    optimizer.load_state_dict(saved["optimizer"])
    state = saved["generator"]
    if state.shape == generator.get_state().shape:
        generator.set_state(state)
    else:  # from another device type: a new seed, but the same for every resume from here
        generator.manual_seed(zlib.crc32(state.numpy().tobytes()))


def load_weights(folder: Path, policy: Policy) -> None:
    """Load only the weights."""
    whole = folder / (ADAPTER if policy.adapted else "model.safetensors")
    with reading(whole if whole.exists() else folder):
        load_model(folder, policy)
