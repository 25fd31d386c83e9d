"""A checkpoint is a Hugging Face folder: plain transformers loads it, and answers the same."""

import json
import shutil
from dataclasses import replace

import pytest

pytest.importorskip("torch")

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

from metis.core import Sampling
from metis.engines.local.generate.sampling import OwnSampler, ordered_replies
from metis.engines.local.model.folder import load_model, save_model
from metis.engines.local.model.policy import Policy

CHAT = [{"role": "user", "content": "What is 2 + 2? <|im_end|> 𝔘\n"}]
TOKENS = torch.arange(3, 40)[None]


def trained(folder, settings):
    """A policy whose weights are not those it was loaded with."""
    policy = Policy(folder, settings)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in policy.trainable:
            parameter.add_(0.05 * torch.randn_like(parameter))
    return policy


@torch.no_grad()
def logits(network):
    return network(input_ids=TOKENS).logits


def test_transformers_loads_a_checkpoint_as_it_is(tiny, settings, tmp_path):
    policy = trained(tiny, settings)
    save_model(tmp_path, policy)
    network, tokenizer = (
        kind.from_pretrained(tmp_path) for kind in (AutoModelForCausalLM, AutoTokenizer)
    )
    assert network.dtype == torch.float32
    assert torch.equal(logits(network), logits(policy.base))
    written = tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, return_dict=False)
    assert written == policy.encode_chat(CHAT)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        (tmp_path / "config.json").stat().st_mode & 0o777
    }


def test_it_generates_there_as_here_whatever_the_model_s_own_defaults(tiny, settings, tmp_path):
    base = shutil.copytree(tiny, tmp_path / "base")
    (base / "chat_template.jinja").unlink()
    own = {"repetition_penalty": 1.9, "eos_token_id": 70, "do_sample": True, "temperature": 0.6}
    (base / "generation_config.json").write_text(json.dumps(own))
    policy = trained(base, settings)
    assert len(policy.stops) == 2
    save_model(tmp_path / "saved", policy)
    network, tokenizer = (
        kind.from_pretrained(tmp_path / "saved") for kind in (AutoModelForCausalLM, AutoTokenizer)
    )
    prompts = [policy.encode_chat([{"role": "user", "content": f"{n} and?"}]) for n in range(4)]
    generator = torch.Generator().manual_seed(0)
    replies = ordered_replies(
        OwnSampler(policy, 4).sample(prompts, 1, Sampling(24, 0.0), generator)
    )
    for prompt, reply in zip(prompts, replies, strict=True):
        asked = torch.tensor([prompt])
        answer = network.generate(
            input_ids=asked, attention_mask=torch.ones_like(asked), max_new_tokens=24
        )
        assert answer[0, len(prompt) :].tolist() == reply.tokens
    there = tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, return_dict=False)
    assert there == policy.encode_chat(CHAT)


def test_tied_weights_are_stored_once(tiny, settings, tmp_path):
    from transformers import LlamaConfig, LlamaForCausalLM

    base = shutil.copytree(tiny, tmp_path / "base")
    config = LlamaConfig.from_pretrained(tiny)
    config.tie_word_embeddings = True
    LlamaForCausalLM(config).save_pretrained(base)
    policy, other = trained(base, settings), Policy(base, settings)
    save_model(tmp_path / "saved", policy)
    with safe_open(tmp_path / "saved/model.safetensors", "pt") as weights:
        assert "lm_head.weight" not in weights.keys()  # noqa: SIM118
    load_model(tmp_path / "saved", other)
    assert torch.equal(logits(other.base), logits(policy.base))


def test_a_checkpoint_with_lora_is_a_peft_adapter(tiny, settings, tmp_path):
    pytest.importorskip("peft")
    policy = trained(tiny, replace(settings, lora=2))
    save_model(tmp_path, policy)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json"} <= names
    assert not {"config.json", "model.safetensors", "README.md"} & names
    about = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (about["base_model_name_or_path"], about["task_type"]) == (str(tiny), "CAUSAL_LM")
    network = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert torch.allclose(logits(network), logits(policy.network), atol=1e-6)
