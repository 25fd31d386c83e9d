"""Saves the policy as a Hugging Face folder: weights, tokenizer, generation config.

With LoRA the folder is a PEFT adapter that names its base model.
"""

from pathlib import Path

from safetensors.torch import load_file

from metis import files
from metis.engines.local.model.network import read_network
from metis.engines.local.model.policy import Policy

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
