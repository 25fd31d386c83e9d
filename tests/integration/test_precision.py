"""On a CPU models compute in float32, however their weights are stored."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import linear, scaled_dot_product_attention
from transformers import AutoModelForCausalLM

from metis.engines.local.model.policy import Policy

HALVES = (torch.bfloat16, torch.float16)
PRODUCTS = {
    "matrices": lambda x: x @ x.T,
    "batches": lambda x: x[None] @ x[None].mT,
    "a vector": lambda x: x @ x[0],
    "vectors": lambda x: x[0] @ x[0],
    "a layer": lambda x: linear(x, x, x[:, 0]),
    "attention": lambda x: scaled_dot_product_attention(
        x[None, None], x[None, None], x[None, None]
    ),
}


@pytest.mark.parametrize("kind", HALVES, ids=str)
@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_the_tests_of_models_forbid_products_in_half_precision(product, kind):
    x = torch.ones(4, 4)
    assert set(product(x).flatten().tolist()) <= {1.0, 4.0, 5.0}
    with pytest.raises(AssertionError, match=f"{kind} on a CPU"):
        product(x.to(kind))
    with pytest.raises(AssertionError, match=f"{kind} on a CPU"), torch.autocast("cpu", kind):
        product(x)


@pytest.mark.parametrize("lora", [0, 2])
@pytest.mark.parametrize("kind", HALVES, ids=str)
def test_weights_stored_in_half_precision_are_computed_with_in_float32(
    tiny, settings, tmp_path, kind, lora
):
    AutoModelForCausalLM.from_pretrained(tiny).to(kind).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (tmp_path / name).symlink_to(tiny / name)
    policy = Policy(tmp_path, replace(settings, model=str(tmp_path), lora=lora))
    assert {weight.dtype for weight in policy.network.state_dict().values()} == {torch.float32}
    logits = policy.network(input_ids=torch.arange(3, 40)[None]).logits
    logits.logsumexp(-1).sum().backward()
    assert {weight.grad.dtype for weight in policy.trainable} == {torch.float32}
