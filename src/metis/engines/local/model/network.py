"""The network of a Hugging Face folder, and the generation config that suits a policy."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GenerationConfig


def read_network(folder: Path) -> tuple[Any, list[str]]:
    """The model of a folder in float32, and the parts of it that the folder has no weights for."""
    pair: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa", output_loading_info=True
    )
    network, loaded = pair
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
