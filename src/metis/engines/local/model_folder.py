"""The policy as a Hugging Face folder: its weights exactly as they are, its tokenizer, its ends.

Of a policy with LoRA the folder is a PEFT adapter, which names the model that it belongs to.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, GenerationConfig

from metis import disk

if TYPE_CHECKING:
    from metis.engines.local.policy import Policy

ADAPTER = "adapter_model.safetensors"


def read_network(folder: Path) -> tuple[Any, list[str]]:
    """The model of a folder in float32, and the parts of it that the folder has no weights for."""
    found: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa", output_loading_info=True
    )
    network, loaded = found
    return network, sorted(loaded["missing_keys"])


def generation_config(network: Any, tokenizer: Any, stops: set[int]) -> Any:
    """The generation of the policy: until any of its end tokens, with no penalty and no filter.

    The model's own may have a repetition penalty, or fewer ends: elsewhere it would answer
    otherwise than it was trained and tested.
    """
    ends = sorted(stops)
    padding = tokenizer.pad_token_id
    config: Any = GenerationConfig
    return config(
        bos_token_id=getattr(network.config.get_text_config(), "bos_token_id", None),
        eos_token_id=ends[0] if len(ends) == 1 else ends,
        pad_token_id=ends[0] if padding is None else padding,
    )


def save_model(folder: Path, policy: "Policy") -> None:
    """Write what `from_pretrained` loads."""
    if policy.adapted:  # the sizes of embeddings, which PEFT would look up on the hub, never change
        policy.network.save_pretrained(folder, save_embedding_layers=False)
        (folder / "README.md").unlink(missing_ok=True)  # PEFT's form of a model card
    else:
        policy.network.save_pretrained(folder)
    save_settings(folder, policy)
    disk.same_access(folder, "tokenizer_config.json")


def save_settings(folder: Path, policy: "Policy") -> None:
    """The tokenizer with its chat template, and the generation config."""
    policy.base.generation_config.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)


def load_model(folder: Path, policy: "Policy") -> None:
    """Bring back the weights that `save_model` wrote, into the same memory."""
    if policy.adapted:
        from peft import set_peft_model_state_dict

        set_peft_model_state_dict(policy.network, load_file(folder / ADAPTER))
        return
    network, missing = read_network(folder)
    if missing:
        raise OSError(f"no weights for {missing[0]!r}")
    policy.network.load_state_dict(network.state_dict())
