"""A tiny random model with a byte-level tokenizer: a real transformers model, in milliseconds."""

import importlib
import warnings
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from metis.config import load_config
from metis.engines.local.model.policy import Policy
from metis.engines.local.settings import LocalSettings
from metis.surveys.facts import PromptOutcome
from metis.surveys.outcome_set import OutcomeSet
from precision import forbid_half_products

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, and the three markers of ChatML."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: i for i, symbol in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    fast.add_special_tokens(
        {"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]}
    )
    fast.chat_template = CHATML
    return fast


def save_tiny(folder: Path) -> Path:
    """A two-layer Llama with random weights."""
    tokenizer = byte_tokenizer()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        initializer_range=0.2,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        LlamaForCausalLM(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True, scope="module")
def full_precision():
    """Models that run on a CPU run in float32, on every machine."""
    allow = forbid_half_products()
    yield
    allow()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def settings(tiny):
    return LocalSettings(model=str(tiny), device="cpu", max_tokens=8, learning_rate=1e-3)


@pytest.fixture
def policy(tiny, settings):
    return Policy(tiny, settings)


@pytest.fixture(scope="session")
def benchmark_script():
    """Imports a script of `benchmarks/` by its name."""

    def load_script(name):
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(BENCHMARKS))
            return importlib.import_module(name)

    return load_script


@pytest.fixture(scope="session")
def kept(tiny, tmp_path_factory):
    """Sums of three levels: none right, half of them, all."""
    words = ["task.prompts=48", "task.heldout=1", "task.levels=[1,2,3]", "group=4"]
    config = load_config(None, [f"engine.model={tiny}", *words])
    passes = {"level-1": 0, "level-2": 2, "level-3": 4}
    outcomes = [
        PromptOutcome(
            p.id, "", tuple(float(i < passes[p.category]) for i in range(4)), (9,) * 4, 0, 0
        )
        for p in config.task.training()
    ]
    path = tmp_path_factory.mktemp("set") / "sums.jsonl.gz"
    OutcomeSet(config.resolved, {}, 48, outcomes).write(path)
    return path
