"""The door to vLLM, with a stand-in behind it: seeds, limits, sleep and weights."""

import os
import sys
import types
from types import SimpleNamespace

import pytest
import torch

from metis.core import Sampling
from metis.engines.local.generate import vllm as door
from metis.engines.local.generate.weights import merged
from metis.engines.local.model.policy import Policy
from metis.engines.local.settings import LocalSettings
from metis.errors import MetisError


class Llm:
    """Writes down what it is asked and when; says the same token until it may say no more."""

    def __init__(self, **options):
        self.options, self.events = options, []

    def generate(self, prompts, parameters, use_tqdm):
        self.events.append("generate")
        self.asked = list(zip(prompts, parameters, strict=True))
        rows = []
        for _, given in self.asked:
            said = [{65: SimpleNamespace(logprob=-0.5)}] * given.max_tokens
            each = SimpleNamespace(
                token_ids=[65] * given.max_tokens, logprobs=said, finish_reason="length"
            )
            rows.append(SimpleNamespace(outputs=[each] * given.n))
        return rows

    def sleep(self, level):
        self.events.append("sleep")

    def wake_up(self):
        self.events.append("wake")

    def reset_prefix_cache(self):
        self.events.append("reset")

    def apply_model(self, function):
        self.events.append("load")
        function(SimpleNamespace(load_weights=lambda pairs: setattr(self, "given", dict(pairs))))


@pytest.fixture
def policy(tiny, monkeypatch):
    found = Policy(tiny, LocalSettings(model=str(tiny), device="cpu"))
    module = types.ModuleType("vllm")
    module.LLM = Llm
    module.SamplingParams = lambda **given: SimpleNamespace(**given)
    module.TokensPrompt = lambda **given: SimpleNamespace(**given)
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setattr(found, "device", SimpleNamespace(type="cuda"))
    return found


@pytest.fixture
def seeds(monkeypatch):
    found = []
    monkeypatch.setattr(torch.cuda, "manual_seed", found.append)
    return found


def sampler(policy, **settings):
    return door.VllmSampler(policy, LocalSettings(**settings))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_processed_tokens_are_prompts_read_once_and_all_replies(policy, seeds):
    found = sampler(policy)
    found.sample([[1, 2, 3, 4], [1, 2, 5]], 2, Sampling(6, 1.0), generator())
    assert found.processed == 2 + (2 + 1) + 2 * 2 * 6
    found.sample([[9] * 5], 1, Sampling(3, 1.0), generator())
    assert found.processed == 29 + 5 + 3


def test_each_prompt_may_have_its_own_number_of_replies(policy, seeds):
    found = sampler(policy)
    replies = list(found.sample([[1, 2], [3, 4]], [1, 3], Sampling(6), generator()))
    assert [place for place, _ in replies] == [0, 1, 2, 3]
    assert found.processed == 4 + 4 * 6


def test_every_call_has_a_seed_of_the_run_s_generator(policy, seeds):
    said, again, other = generator(), generator(), generator(1)
    found = sampler(policy)
    for each in (said, said, again, other):
        found.sample([[1, 2]], 2, Sampling(4), each)
    assert seeds[0] == seeds[2] and len(set(seeds)) == 3
    assert not hasattr(found.llm.asked[0][1], "seed"), "a seed a request makes vLLM slow"


def test_answers_end_where_the_context_does(policy, seeds, monkeypatch):
    monkeypatch.setattr(door, "LONGEST", 10)
    found = sampler(policy)
    assert found.llm.options["max_model_len"] == policy.context == 10
    replies = [reply for _, reply in found.sample([[1] * 7, [1]], 2, Sampling(6), generator())]
    assert [len(reply.tokens) for reply in replies] == [3, 3, 6, 6]
    assert replies[0].logprobs == [-0.5] * 3 and replies[0].finish == "length"


@pytest.mark.parametrize(("temperature", "mode"), [(1.0, "raw"), (0.7, "processed")])
def test_log_probabilities_are_those_the_update_compares_with(policy, temperature, mode):
    found = sampler(policy, temperature=temperature)
    assert found.llm.options["logprobs_mode"] == f"{mode}_logprobs"


@pytest.mark.parametrize(
    ("error", "known"),
    [
        ("Free memory on device cuda:0 (3/80 GiB) is less than desired GPU memory", True),
        ("No available memory for the cache blocks.", True),
        ("The model is of a kind that nobody knows.", False),
    ],
)
def test_too_little_memory_to_start_with_names_the_knob(policy, monkeypatch, error, known):
    def starting(**_):
        raise ValueError(error)

    monkeypatch.setattr(sys.modules["vllm"], "LLM", starting)
    with pytest.raises(MetisError if known else ValueError) as found:
        sampler(policy, vllm_memory=0.9)
    assert known is str(found.value).startswith("engine.vllm_memory = 0.9: vLLM does not start")


def test_a_cache_of_a_given_size_is_not_measured(policy, monkeypatch):
    assert "kv_cache_memory_bytes" not in sampler(policy).llm.options
    options = sampler(policy, vllm_cache=1.5, vllm_memory=0.9).llm.options
    assert options["kv_cache_memory_bytes"] == 3 << 29
    assert options["gpu_memory_utilization"] == 0.05, "the share is not asked for"
    with pytest.raises(MetisError, match=r"engine\.vllm_cache = -1"):
        LocalSettings(vllm_cache=-1)

    def starting(**_):
        raise ValueError("Free memory on device cuda:0 (3/80 GiB) is less than desired GPU memory")

    monkeypatch.setattr(sys.modules["vllm"], "LLM", starting)
    with pytest.raises(MetisError, match=r"engine\.vllm_cache = 2: vLLM does not start"):
        sampler(policy, vllm_cache=2)


def test_it_sleeps_while_the_policy_learns_and_wakes_with_new_weights(policy, seeds):
    found = sampler(policy)
    found.sleep()
    found.sleep()
    found.sync(policy)
    found.sample([[1]], 1, Sampling(1), generator())
    assert found.llm.events == ["sleep", "wake", "load", "reset", "generate"]
    weights = policy.base.state_dict()
    assert found.llm.given.keys() == weights.keys()
    assert all(weight.dtype is torch.bfloat16 for weight in found.llm.given.values())


def test_without_sleep_it_is_always_awake(policy, seeds):
    found = sampler(policy, vllm_sleep=False)
    assert not found.llm.options["enable_sleep_mode"]
    found.sleep()
    found.sync(policy)
    assert found.llm.events == ["load", "reset"]


@pytest.mark.parametrize(("top_p", "wanted"), [(1.0, "0"), (0.9, None)])
def test_kernels_for_top_p_are_not_compiled_where_it_is_not_used(
    policy, monkeypatch, top_p, wanted
):
    for name in ("LOGGING_LEVEL", "ENABLE_V1_MULTIPROCESSING", "USE_FLASHINFER_SAMPLER"):
        monkeypatch.setenv(f"VLLM_{name}", "")
        monkeypatch.delenv(f"VLLM_{name}")
    monkeypatch.setattr(door, "pick_device", lambda name: torch.device("cuda"))
    door.require_vllm(LocalSettings(generation="vllm", top_p=top_p))
    assert os.environ.get("VLLM_USE_FLASHINFER_SAMPLER") == wanted


def test_adapters_are_merged_under_the_plain_names_and_taken_out_again(tiny):
    """While they are read: vLLM takes one weight at a time."""
    pytest.importorskip("peft")
    plain = Policy(tiny, LocalSettings(model=str(tiny), device="cpu")).base.state_dict()
    policy = Policy(tiny, LocalSettings(model=str(tiny), device="cpu", lora=2))
    moved = [value for name, value in policy.network.named_parameters() if "lora_B" in name]
    with torch.no_grad():
        for value in moved:
            value.fill_(0.5)
    first, second = dict(merged(policy, torch.bfloat16)), dict(merged(policy, torch.bfloat16))
    assert first.keys() == plain.keys()
    changed = {name for name in plain if not torch.equal(first[name], plain[name].bfloat16())}
    assert len(changed) == len(moved) and all("_proj" in name for name in changed)
    assert all(torch.equal(first[name], second[name]) for name in plain)
