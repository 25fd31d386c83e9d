"""Saves and loads the policy: a Hugging Face folder, and beside it optimizer and random generator.

With LoRA the folder is a PEFT adapter that names its base model.
"""

import zlib
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from metis import files
from metis.engines.loading import reading
from metis.engines.local.model.policy import Policy, read_network

ADAPTER = "adapter_model.safetensors"


def save_model(folder: Path, policy: Policy) -> None:
    """Save for `from_pretrained`."""
    if policy.adapted:  # embeddings are never resized, so PEFT need not check on the hub
        policy.network.save_pretrained(folder, save_embedding_layers=False)
        (folder / "README.md").unlink(missing_ok=True)  # PEFT's empty model card
    else:
        policy.network.save_pretrained(folder)
    save_settings(folder, policy)
    files.same_access(folder, "tokenizer_config.json")


def save_settings(folder: Path, policy: Policy) -> None:
    """Save the tokenizer with its chat template, and the generation config."""
    policy.base.generation_config.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)


def load_model(folder: Path, policy: Policy) -> None:
    """Load what `save_model` wrote into the policy, in place."""
    if policy.adapted:
        from peft import set_peft_model_state_dict

        set_peft_model_state_dict(policy.network, load_file(folder / ADAPTER))
        return
    network, missing = read_network(folder)
    if missing:
        raise OSError(f"no weights for {missing[0]!r}")
    policy.network.load_state_dict(network.state_dict())


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
