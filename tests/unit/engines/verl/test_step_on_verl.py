"""The estimate of a step on verl: bytes of a GPU and seconds, part by part."""

from dataclasses import replace

import pytest

from metis.engines.local.estimate.shape import ModelShape
from metis.engines.local.estimate.step import StepSize, activations
from metis.engines.verl import estimate
from metis.engines.verl.estimate import divided, memory, seconds
from metis.engines.verl.settings import VerlSettings

LARGE = ModelShape(8_190_735_360, 151_936, 36, 4096, 12_288, 1024)
STEP = StepSize(prompts=256, group=8, opening=30, question=70)
SETTINGS = VerlSettings(gpus=8, max_tokens=2048, max_prompt=512, tokens=16_384)
DIRECT = replace(STEP, judged=2048, learnt=256, shared=700, candidate=100)


def on(nodes, gpus, **changed):
    return replace(SETTINGS, nodes=nodes, gpus=gpus, **changed)


def test_weights_gradients_and_moments_are_divided_among_all_gpus():
    assert memory(LARGE, on(1, 1), STEP).states == 16 * LARGE.weights
    assert memory(LARGE, on(2, 8), STEP).states == LARGE.weights
    assert memory(LARGE, on(1, 1, kl=0.1), STEP).states == 20 * LARGE.weights
    adapters = memory(LARGE, on(1, 1, lora=16), STEP).states
    assert adapters == 4 * LARGE.weights + 16 * 16 * LARGE.adapters


def test_a_pass_is_as_large_on_any_number_of_gpus_until_they_have_less_than_one():
    one, eight, many = (memory(LARGE, on(n, g), STEP).update for n, g in ((1, 1), (1, 8), (64, 8)))
    assert one == eight > many
    kept = memory(LARGE, on(1, 8, checkpointing=False), STEP).update
    layer = activations(LARGE, gpu=True)
    assert kept - eight == pytest.approx(
        16_384 * ((LARGE.layers - 1) * layer - 2 * LARGE.layers * LARGE.hidden)
    )
    judged = memory(LARGE, SETTINGS, DIRECT).update
    assert judged - eight == pytest.approx(16_384 * estimate.SCORED * LARGE.vocabulary)


def test_vllm_sleeps_during_the_update():
    found = memory(LARGE, SETTINGS, STEP)
    assert found.generation == 0.5 * estimate.MEMORY
    assert found.peak == found.states + max(found.generation, found.update)
    assert found.training == found.states + found.update


def test_more_gpus_shorten_what_is_divided_and_traffic_bounds_it():
    eight, more = (seconds(LARGE, on(1, g), STEP) for g in (4, 8))
    work = eight.update - estimate.UPDATED - 2 * LARGE.weights / estimate.WITHIN
    less = more.update - estimate.UPDATED - 2 * LARGE.weights / estimate.WITHIN
    assert work == pytest.approx(2 * less)
    assert more.rollout < eight.rollout
    small = on(8, 8, tokens=2560)
    bound = seconds(LARGE, small, STEP).update
    assert bound == pytest.approx(
        estimate.UPDATED
        + 2 * LARGE.weights / estimate.BETWEEN
        + estimate._traffic(LARGE, small, 2048 * (100 + 0.6 * 2048), 1)
    )


def test_a_judgment_of_several_tokens_is_asked_and_trained_in_parts():
    assert divided(DIRECT, ("0", "1", "2")) == DIRECT == divided(DIRECT, ())
    parts = divided(DIRECT, ("0.00", "0.05"))
    assert (parts.judged, parts.learnt) == (4 * 2048, 3 * 256)
    plain, judged, several = (seconds(LARGE, SETTINGS, step) for step in (STEP, DIRECT, parts))
    assert plain.judge == 0 < judged.judge < several.judge
    assert judged.update == plain.update and judged.rollout == plain.rollout


def test_a_cache_that_holds_fewer_rows_takes_longer():
    small = on(1, 1, vllm_memory=0.2)
    assert seconds(LARGE, small, STEP).rollout > 1.5 * seconds(LARGE, on(1, 1), STEP).rollout
