"""The policy as a Hugging Face folder: its weights exactly as they are, its tokenizer, its ends.

Of a policy with LoRA the folder is a PEFT adapter, which names the model that it belongs to.
"""

from pathlib import Path

from safetensors.torch import load_file

from metis import files
from metis.engines.local.model.network import read_network
from metis.engines.local.model.policy import Policy

ADAPTER = "adapter_model.safetensors"


def save_model(folder: Path, policy: Policy) -> None:
    """Write what `from_pretrained` loads."""
    if policy.adapted:  # the sizes of embeddings, which PEFT would look up on the hub, never change
        policy.network.save_pretrained(folder, save_embedding_layers=False)
        (folder / "README.md").unlink(missing_ok=True)  # PEFT's form of a model card
    else:
        policy.network.save_pretrained(folder)
    save_settings(folder, policy)
    files.same_access(folder, "tokenizer_config.json")


def save_settings(folder: Path, policy: Policy) -> None:
    """The tokenizer with its chat template, and the generation config."""
    policy.base.generation_config.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)


def load_model(folder: Path, policy: Policy) -> None:
    """Bring back the weights that `save_model` wrote, into the same memory."""
    if policy.adapted:
        from peft import set_peft_model_state_dict

        set_peft_model_state_dict(policy.network, load_file(folder / ADAPTER))
        return
    network, missing = read_network(folder)
    if missing:
        raise OSError(f"no weights for {missing[0]!r}")
    policy.network.load_state_dict(network.state_dict())
