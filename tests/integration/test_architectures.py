"""Models that are not quite like Llama: other logits, windows, dropout."""

import warnings
from dataclasses import replace

import pytest
import torch
from torch._dynamo.utils import counters
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    GraniteConfig,
    GraniteForCausalLM,
    Lfm2Config,
    Lfm2ForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PhiConfig,
    PhiForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from integration.conftest import byte_tokenizer
from metis import MetisError
from metis.core import Sampling
from metis.engines.local.engine import LocalEngine
from metis.engines.local.generate.sampling import OwnSampler, ordered_replies
from metis.engines.local.model.forward import packs_alike, token_logprobs
from metis.engines.local.model.policy import Policy
from metis.engines.local.settings import LocalSettings
from metis.engines.tokens.packing import PrefixGroup, sequence_row
from metis.tasks.arithmetic import Arithmetic, build
from traced import compile_with

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,
}
KINDS = {
    "tied": (Qwen2ForCausalLM, Qwen2Config, {**SMALL, "tie_word_embeddings": True}),
    "scaled down": (GraniteForCausalLM, GraniteConfig, {**SMALL, "logits_scaling": 4.0}),
    "scaled up": (CohereForCausalLM, CohereConfig, {**SMALL, "logit_scale": 3.0}),
    "soft cap": (
        Gemma3ForCausalLM,
        Gemma3TextConfig,
        {**SMALL, "head_dim": 8, "final_logit_softcapping": 0.5},
    ),
    "soft cap above all logits": (
        Gemma3ForCausalLM,
        Gemma3TextConfig,
        {**SMALL, "head_dim": 8, "initializer_range": 0.02, "final_logit_softcapping": 30.0},
    ),
    "windows": (
        Gemma3ForCausalLM,
        Gemma3TextConfig,
        {
            **SMALL,
            "head_dim": 8,
            "layer_types": ["sliding_attention", "full_attention"],
            "sliding_window": 16,
        },
    ),
    "convolutions": (
        Lfm2ForCausalLM,
        Lfm2Config,
        {**SMALL, "layer_types": ["conv", "full_attention"]},
    ),
    "one window": (MistralForCausalLM, MistralConfig, {**SMALL, "sliding_window": 16}),
    "wide window": (MistralForCausalLM, MistralConfig, {**SMALL, "sliding_window": 500}),
    "biased": (
        PhiForCausalLM,
        PhiConfig,
        {**SMALL, "num_key_value_heads": 4},
    ),
    "dropout": (
        GPT2LMHeadModel,
        GPT2Config,
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512},
    ),
}


@pytest.fixture
def save(tmp_path):
    tokenizer = byte_tokenizer()

    def write(kind):
        network, config, settings = KINDS[kind]
        torch.manual_seed(0)
        ends = {"eos_token_id": tokenizer.eos_token_id, "bos_token_id": None, "pad_token_id": None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            network(config(vocab_size=len(tokenizer), **ends, **settings)).save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        return LocalSettings(model=str(tmp_path), device="cpu")

    return write


def logprobs(policy, tokens, mask):
    return token_logprobs(policy, PrefixGroup([], [sequence_row(tokens, mask, 0)]))


@pytest.mark.parametrize("lora", [0, 2])
@pytest.mark.parametrize("kind", ["tied", "scaled down", "scaled up", "biased"])
def test_logits_are_those_of_the_model(save, tmp_path, kind, lora):
    if lora:
        pytest.importorskip("peft")
    policy = Policy(tmp_path, replace(save(kind), lora=lora))
    tokens = torch.arange(60, 80)
    with torch.no_grad():
        if kind == "biased":  # zero until then
            policy.base.get_output_embeddings().bias.normal_()
        whole = torch.log_softmax(policy.network(tokens[None]).logits[0, :-1], dim=1)
        found = logprobs(policy, tokens.numpy(), torch.ones(20, dtype=torch.bool).numpy())
    assert torch.allclose(found, whole.gather(1, tokens[1:, None])[:, 0], atol=1e-4)


@pytest.mark.parametrize("kind", ["soft cap", "soft cap above all logits"])
def test_what_else_is_done_to_logits_is_refused(save, tmp_path, kind):
    with pytest.raises(MetisError, match=r"Gemma3ForCausalLM transforms its logits"):
        Policy(tmp_path, save(kind))


@pytest.mark.parametrize("kind", ["windows", "one window"])
def test_values_are_not_scored_where_layers_see_a_window(save, kind):
    engine = LocalEngine(save(kind), build(Arithmetic(prompts=4, heldout=1), 0))
    with pytest.raises(MetisError, match=r"sliding-window.*curriculum.judge=reason"):
        engine.score([[{"role": "user", "content": "How?"}]], ["0", "1"])


def positions_that_tell(policy) -> None:
    """Learned positions and logits as large as in a trained model."""
    for weights in (policy.base.transformer.wpe, policy.base.transformer.wte):
        weights.weight.data.normal_()


@pytest.mark.parametrize("kind", ["tied", "scaled down", "biased", "dropout"])
def test_packed_rows_are_alike_where_positions_are_told(save, tmp_path, kind):
    policy = Policy(tmp_path, save(kind))
    if kind == "dropout":
        positions_that_tell(policy)
    assert policy.plain and packs_alike(policy) and not policy.processed


def test_packed_rows_are_tried_without_compilation(save, tmp_path, monkeypatch):
    compile_with(monkeypatch, "aot_eager")
    policy = Policy(tmp_path, replace(save("tied"), compile=True))
    before = counters["stats"]["unique_graphs"]
    assert packs_alike(policy) and policy.compiled
    assert counters["stats"]["unique_graphs"] == before


def test_packed_rows_differ_where_positions_are_ignored(save, tmp_path):
    policy = Policy(tmp_path, save("dropout"))
    positions_that_tell(policy)
    told = policy.base.transformer.forward
    policy.base.transformer.forward = lambda position_ids=None, **given: told(**given)
    assert not packs_alike(policy)


@pytest.mark.parametrize("kind", ["windows", "one window", "wide window", "convolutions"])
def test_states_are_those_of_a_prompt_alone_whatever_prefix_prompts_share(save, kind):
    engine = LocalEngine(save(kind), build(Arithmetic(prompts=4, heldout=1), 0))
    shared = "What is " + " + ".join(map(str, range(40)))
    chats = [[{"role": "user", "content": f"{shared}{end}"}] for end in ("?", " + 41?", " + 4?")]
    for chat, together in zip(chats, engine.embed(chats), strict=True):
        assert together == pytest.approx(engine.embed([chat])[0], abs=1e-4)


@pytest.mark.parametrize("kind", ["windows", "one window", "wide window"])
def test_what_is_sampled_under_a_window_has_the_probability_that_it_is_trained_with(
    save, tmp_path, kind
):
    policy = Policy(tmp_path, save(kind))
    prompts = [
        policy.encode_chat([{"role": "user", "content": question}])
        for question in ("1 + 1?", "What is " + " + ".join(map(str, range(40))) + "?")
    ]
    generator = torch.Generator().manual_seed(0)
    replies = ordered_replies(OwnSampler(policy, 64).sample(prompts, 2, Sampling(12), generator))
    for prompt, reply in zip([prompts[0]] * 2 + [prompts[1]] * 2, replies, strict=True):
        tokens = torch.tensor(prompt + reply.tokens)
        with torch.no_grad():
            whole = torch.log_softmax(policy.network(tokens[None]).logits[0, :-1], dim=1)
            mask = torch.arange(len(tokens)) >= len(prompt)
            trained = logprobs(policy, tokens.numpy(), mask.numpy())
        wanted = whole.gather(1, tokens[1:, None])[len(prompt) - 1 :, 0]
        assert torch.allclose(torch.tensor(reply.logprobs), wanted, atol=1e-4)
        assert torch.allclose(trained, wanted, atol=1e-4)


def test_recomputed_activations_have_no_dropout(save, tmp_path):
    settings = save("dropout")
    tokens, mask = torch.arange(60, 80).numpy(), torch.ones(20, dtype=torch.bool).numpy()
    policy = Policy(tmp_path, settings)
    usual = logprobs(policy, tokens, mask)
    policy.network.train()
    assert torch.equal(logprobs(policy, tokens, mask), usual)
