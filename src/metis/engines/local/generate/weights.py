"""The policy's weights for sampling: LoRA merged, in one dtype."""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from metis.engines.local.model.policy import Policy


def merged(policy: Policy, dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    """The weights under the base model's names, with LoRA merged."""
    if policy.adapted:
        policy.network.merge_adapter()
    try:
        for name, value in policy.base.state_dict().items():
            if "lora_" not in name:
                yield name.replace(".base_layer", ""), value.detach().to(dtype)
    finally:
        if policy.adapted:
            policy.network.unmerge_adapter()


@torch.no_grad()
def empty_copy(policy: Policy, attention: str) -> Any:
    """A network of the policy's architecture in its dtype; `refresh` gives it the weights."""
    config = copy.deepcopy(policy.base.config)
    library: Any = AutoModelForCausalLM
    with policy.device:
        network = library.from_config(config, dtype=policy.dtype, attn_implementation="sdpa")
    network.config.get_text_config()._attn_implementation = attention
    return network.requires_grad_(False).eval()


@torch.no_grad()
def refresh(network: Any, policy: Policy) -> None:
    """Copy the policy's weights in place: CUDA graphs keep their addresses."""
    own = network.state_dict()
    for name, value in merged(policy, policy.dtype):
        own[name].copy_(value)
