"""Prompts of very different lengths: each as if it were alone, with little padding."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from metis.core import Sampling
from metis.engines.local.generate.prefill import _of_like_length, prefill
from metis.engines.local.generate.sampling import ordered_replies, stream_replies

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
        found = prefill(policy, prompts, 2)
        for k, prompt in enumerate(prompts):
            alone = policy.network(torch.tensor([prompt])).logits[0, -1]
            for row in (2 * k, 2 * k + 1):
                assert torch.allclose(found.logits[row], alone, atol=1e-4)
                assert int(found.mask[row].sum()) == len(prompt)
    assert {layer.keys.shape[:3] for layer in found.cache.layers} == {(12, 2, found.mask.shape[1])}
    padded = len(LENGTHS) * (max(LENGTHS)) + len(begin)
    assert policy.processed < padded / 2


def test_tokens_one_by_one_equal_a_whole_pass(policy, monkeypatch):
    """Through room that is used up, and rows that leave."""
    monkeypatch.setattr("metis.engines.local.generate.decoding.ROOM", 3)
    policy.stops = set(range(30))
    prompts = [[5, 6, 7, 8], [9, 10]]
    generator = torch.Generator().manual_seed(0)
    replies = ordered_replies(stream_replies(policy, prompts, 3, Sampling(12), generator, rows=6))
    assert len({len(reply.tokens) for reply in replies}) > 1
    for i, reply in enumerate(replies):
        sequence = torch.tensor([*prompts[i // 3], *reply.tokens])
        with torch.no_grad():
            whole = torch.log_softmax(policy.network(sequence[None]).logits[0, :-1], dim=1)
        wanted = whole.gather(1, sequence[1:, None])[-len(reply.tokens) :, 0]
        assert torch.allclose(torch.tensor(reply.logprobs), wanted, atol=1e-4)
