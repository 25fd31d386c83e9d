"""Loads a Hugging Face model, and makes the policy's generation config."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GenerationConfig


def read_network(folder: Path) -> tuple[Any, list[str]]:
    """The model of a folder in float32, and its missing keys."""
    pair: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa", output_loading_info=True
    )
    network, loaded = pair
    return network, sorted(loaded["missing_keys"])


def generation_config(network: Any, tokenizer: Any, stops: set[int]) -> Any:
    """A generation config with all stop tokens and plain sampling.

    The model's own may have a repetition penalty or fewer EOS tokens: exported, the policy would
    generate differently from training and validation.
    """
    ends = sorted(stops)
    padding = tokenizer.pad_token_id
    config: Any = GenerationConfig
    return config(
        bos_token_id=getattr(network.config.get_text_config(), "bos_token_id", None),
        eos_token_id=ends[0] if len(ends) == 1 else ends,
        pad_token_id=ends[0] if padding is None else padding,
    )
