"""The arithmetic of the estimate: bytes and seconds of a step, part by part."""

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save_file

from metis.engines.local.estimate import step as estimate
from metis.engines.local.estimate.shape import ModelShape
from metis.engines.local.estimate.step import Device, StepSize, activations, memory, seconds
from metis.engines.local.settings import LocalSettings

SMALL = ModelShape(134_515_008, 49_152, 30, 576, 1536, 192)
LARGE = ModelShape(1_543_714_304, 151_936, 28, 1536, 8960, 256)
CPU = Device(False, 0.0, 0.0, 1e11, 5e10, 1e10)
GPU = Device(True, 140e9, 130e9, 6.5e14, 6.5e14, 4e12)
STEP = StepSize(prompts=8, group=8, opening=30, question=10)
SETTINGS = LocalSettings(max_tokens=100, tokens=4096)


def test_weights_gradients_and_moments_are_float32():
    found = memory(SMALL, SETTINGS, STEP, CPU)
    assert found.weights == 4 * SMALL.weights
    assert found.training == 12 * SMALL.weights
    assert found.peak == found.held + found.generation + found.update


def test_adapters_alone_are_trained():
    rank = SMALL.adapters
    whole, few = (memory(SMALL, replace(SETTINGS, lora=n), STEP, CPU) for n in (0, 4))
    assert few.training == 12 * 4 * rank < whole.training / 50
    assert few.weights == whole.weights + 4 * 4 * rank
    per_layer = 2 * (576 + 576) + 2 * (576 + 192) + 3 * (576 + 1536)  # q and o, k and v, the MLP
    assert rank == 30 * per_layer


def test_an_update_holds_the_activations_of_a_pass_and_its_logits():
    found = memory(SMALL, SETTINGS, STEP, CPU).update
    tokens = 40 + 8 * 100
    logits = 8 * 100 * SMALL.vocabulary * estimate.LOGIT_BYTES
    assert found == tokens * SMALL.layers * activations(SMALL, gpu=False) + logits
    fewer = memory(SMALL, replace(SETTINGS, tokens=400), STEP, CPU).update
    assert fewer == pytest.approx(found / 2, rel=0.05), "four of the eight answers at a time"


def test_a_gpu_fills_its_passes_from_all_prompts():
    few = memory(LARGE, SETTINGS, STEP, GPU).update
    many = memory(LARGE, replace(SETTINGS, tokens=8192), STEP, GPU).update
    assert many - few == 4096 * LARGE.layers * activations(LARGE, gpu=True) + (
        estimate.LOGIT_BYTES * (min(8192 * LARGE.vocabulary, estimate.LOGITS) - estimate.LOGITS)
    )
    all_of_it = memory(LARGE, replace(SETTINGS, tokens=1 << 20), STEP, GPU).update
    assert all_of_it == memory(LARGE, replace(SETTINGS, tokens=64 * 140), STEP, GPU).update
    recomputed = memory(LARGE, replace(SETTINGS, checkpointing=True), STEP, GPU).update
    assert recomputed < few / 3


def test_a_judge_s_gradient_is_held_beside_the_policy_s():
    judged = replace(STEP, judged=24, learnt=16, shared=150, candidate=20)
    alone = memory(SMALL, replace(SETTINGS, max_tokens=1), STEP, CPU).update
    both = memory(SMALL, replace(SETTINGS, max_tokens=1), judged, CPU).update
    tokens = 150 + 16 * 20
    kept = tokens * SMALL.layers * activations(SMALL, gpu=False)
    assert both == 4 * SMALL.weights + kept + 16 * SMALL.vocabulary * estimate.LOGIT_BYTES
    assert both > alone


def test_vllm_s_memory_is_beside_the_update_s_unless_it_sleeps():
    settings = replace(SETTINGS, generation="vllm", vllm_memory=0.25, vllm_sleep=False)
    awake, asleep = (memory(LARGE, replace(settings, vllm_sleep=s), STEP, GPU) for s in (0, 1))
    assert awake.generation == 0.25 * GPU.memory
    assert awake.peak - asleep.peak == min(awake.generation, awake.update)
    fixed = memory(LARGE, replace(settings, vllm_cache=8.0), STEP, GPU)
    assert fixed.generation == 8 * 2**30 + 2 * LARGE.weights + estimate.VLLM


def test_decoding_waits_for_products_on_a_cpu_and_for_launches_on_a_gpu():
    slow = seconds(SMALL, SETTINGS, STEP, CPU).rollout
    assert seconds(SMALL, SETTINGS, STEP, replace(CPU, decoding=1e11)).rollout < 0.6 * slow
    own = seconds(SMALL, SETTINGS, STEP, GPU).rollout
    prefill = SMALL.layers * estimate.LAUNCHES
    cached = (40 + 50) * SMALL.layers * 4 * SMALL.keys / (estimate.CACHED * GPU.bandwidth)
    token = SMALL.layers * estimate.GRAPHS
    assert own == pytest.approx(prefill + 100 * (token + 64 * cached))
    parts = seconds(SMALL, replace(SETTINGS, rows=16), STEP, GPU).rollout
    assert parts == pytest.approx(prefill + 4 * 100 * (token + 16 * cached))
    assert seconds(SMALL, replace(SETTINGS, generation="vllm"), STEP, GPU).rollout < own


def test_an_update_takes_three_passes_over_what_is_trained_on():
    tokens = estimate.TRAINED * 8 * (40 + estimate.LENGTH * 8 * 100)
    passes = 3 * 2 * SMALL.weights * tokens / (estimate.SHARE * CPU.products)
    assert seconds(SMALL, SETTINGS, STEP, CPU).update == pytest.approx(
        passes + 40 * SMALL.weights / CPU.bandwidth
    )
    assert seconds(SMALL, SETTINGS, STEP, CPU).judge == 0


@pytest.mark.parametrize(
    ("settings", "step", "shape", "seen"),
    [
        (
            {"max_tokens": 1024, "tokens": 16384, "generation": "vllm"},
            StepSize(16, 8, 30, 110, 144, 32, 200, 90),
            LARGE,
            (4.67, 0.28, 1.53),
        ),
        (
            {"max_tokens": 160, "generation": "vllm"},
            StepSize(16, 8, 30, 10),
            SMALL,
            (0.57, 0.0, 0.09),
        ),
        (
            {"max_tokens": 64, "tokens": 65536, "generation": "vllm"},
            StepSize(64, 8, 30, 10, 512, 64, 150, 20),
            SMALL,
            (0.61, 0.08, 0.19),
        ),
        (
            {"max_tokens": 1024, "tokens": 16384, "rows": 512, "lora": 32},
            StepSize(16, 8, 30, 110, judged=128, candidate=140),
            LARGE,
            (6.09, 0.38, 1.67),
        ),
        (
            {"max_tokens": 1024, "tokens": 16384, "rows": 512, "lora": 32},
            StepSize(16, 8, 30, 110, 144, 32, 200, 90),
            LARGE,
            (6.49, 0.73, 1.60),
        ),
    ],
)
def test_steps_that_were_timed_on_an_h200_are_within_a_factor_of_one_and_a_half(
    settings, step, shape, seen
):
    found = seconds(shape, LocalSettings(**settings), step, GPU)
    assert sum(seen) / 1.5 < found.step < 1.5 * sum(seen)


@pytest.mark.parametrize(
    ("shape", "tokens", "way", "seen"),
    [
        (SMALL, 160, "transformers", 0.679),
        (SMALL, 160, "vllm", 1.095),
        (LARGE, 1024, "transformers", 6.455),
        (LARGE, 1024, "vllm", 6.391),
    ],
)
def test_generation_that_was_timed_on_an_h200_is_within_a_factor_of_one_and_a_half(
    shape, tokens, way, seen
):
    settings = LocalSettings(max_tokens=tokens, generation=way)
    found = seconds(shape, settings, StepSize(16, 8, 0, 100), GPU).rollout
    assert seen / 1.5 < found < 1.5 * seen


def test_an_update_of_adapters_with_gradient_checkpointing_took_12_gb():
    settings = LocalSettings(max_tokens=768, lora=16, checkpointing=True)
    found = memory(LARGE, settings, StepSize(8, 8, 0, 128), GPU)
    assert 12.1e9 / 1.25 < found.held + found.update < 1.25 * 12.1e9


@pytest.mark.parametrize(
    ("settings", "step", "seen"),
    [
        ({"max_tokens": 10}, StepSize(8, 8, 30, 10, 32, 16, 150, 20), 3.99e9),
        ({"max_tokens": 96}, StepSize(4, 8, 30, 10), 3.77e9),
        ({"max_tokens": 96, "checkpointing": True}, StepSize(4, 8, 30, 10), 3.73e9),
        ({"max_tokens": 96, "lora": 16}, StepSize(4, 8, 30, 10), 2.67e9),
    ],
)
def test_processes_on_a_cpu_were_as_large_as_estimated(settings, step, seen):
    found = memory(SMALL, LocalSettings(tokens=4096, **settings), step, CPU).peak
    assert seen / 1.25 < found < 1.25 * seen


def test_an_update_of_a_model_of_one_and_a_half_billion_took_82_gb():
    found = memory(LARGE, LocalSettings(max_tokens=1024), StepSize(64, 8, 30, 110), GPU)
    assert 82e9 / 1.25 < found.held + found.update < 1.25 * 82e9


def test_a_shape_is_read_from_a_folder(tmp_path):
    assert ModelShape.of(tmp_path) is None
    config = {"vocab_size": 50, "num_hidden_layers": 2, "hidden_size": 8, "intermediate_size": 16}
    config |= {"num_attention_heads": 4, "num_key_value_heads": 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file({"a": np.zeros((50, 8), np.float32)}, tmp_path / "model-1.safetensors")
    save_file({"b": np.zeros((3,), np.float16)}, tmp_path / "model-2.safetensors")
    assert ModelShape.of(tmp_path) == ModelShape(403, 50, 2, 8, 16, 4)
    (tmp_path / "config.json").write_text(json.dumps({"text_config": config | {"head_dim": 8}}))
    assert ModelShape.of(tmp_path) == ModelShape(403, 50, 2, 8, 16, 16)
