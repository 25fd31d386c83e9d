"""Prompts of very different lengths: each as if it were alone, with little padding."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from metis.engines.local.generate.prefill import _of_like_length, prefill

LENGTHS = [3, 200, 9, 120, 5, 199]


@given(st.lists(st.integers(1, 3000), min_size=1), st.integers(0, 500))
def test_groups_hold_every_prompt_once_with_little_padding(lengths, spare):
    groups = list(_of_like_length(lengths, spare))
    assert sorted(place for group in groups for place in group) == list(range(len(lengths)))
    for group in groups:
        tokens = sum(lengths[place] for place in group)
        padded = len(group) * max(lengths[place] for place in group)
        assert padded - tokens <= max(spare, tokens // 8)


@pytest.mark.parametrize("begin", [[], list(range(40, 70))])
def test_prompts_of_all_lengths_are_each_as_alone(policy, begin):
    prompts = [begin + [(7 * i + k) % 200 for i in range(size)] for k, size in enumerate(LENGTHS)]
    with torch.no_grad():
        found = prefill(policy, prompts)
        for k, prompt in enumerate(prompts):
            alone = policy.network(torch.tensor([prompt])).logits[0, -1]
            assert torch.allclose(found.logits[k], alone, atol=1e-4)
            assert int(found.mask[k].sum()) == len(prompt)
    assert {layer.keys.shape[:3] for layer in found.cache.layers} == {(6, 2, found.mask.shape[1])}
    padded = len(LENGTHS) * (max(LENGTHS)) + len(begin)
    assert policy.processed < padded / 2
