"""Decoding gives the probabilities of a whole pass, on exact shapes and on those of a GPU."""

from dataclasses import replace

import pytest
import torch

from metis.core import Sampling
from metis.engines.local.generate.decoding import BufferedDecoder
from metis.engines.local.generate.sampling import OwnSampler, ordered_replies
from metis.engines.local.model.policy import Policy

PROMPTS = [[5, 6, 7, 8], [9, 10]]
SAMPLING = Sampling(40)


def sampler(policy, bucketed):
    made = OwnSampler(policy)
    made.decoder = BufferedDecoder(policy, bucketed)
    return made


def replies_of(own, prompts=PROMPTS, sampling=SAMPLING, copies=12):
    generator = torch.Generator().manual_seed(0)
    return ordered_replies(own.sample(prompts, copies, sampling, generator))


def assert_as_in_a_whole_pass(policy, replies, prompts=PROMPTS, copies=12):
    for i, reply in enumerate(replies):
        sequence = torch.tensor([*prompts[i // copies], *reply.tokens])
        with torch.no_grad():
            whole = torch.log_softmax(policy.network(sequence[None]).logits[0, :-1], dim=1)
        wanted = whole.gather(1, sequence[1:, None])[-len(reply.tokens) :, 0]
        assert torch.allclose(torch.tensor(reply.logprobs), wanted, atol=1e-4)


@pytest.mark.parametrize("bucketed", [False, True])
def test_tokens_one_by_one_equal_a_whole_pass(policy, bucketed):
    """Through rows that end, so that the batch shrinks."""
    policy.stops = set(range(8))
    replies = replies_of(sampler(policy, bucketed))
    lengths = {len(reply.tokens) for reply in replies}
    assert len(lengths) > 5
    assert all((reply.tokens[-1] in policy.stops) == (reply.finish == "stop") for reply in replies)
    assert not any(policy.stops & set(reply.tokens[:-1]) for reply in replies)
    assert_as_in_a_whole_pass(policy, replies)


def test_greedy_answers_and_costs_do_not_depend_on_buckets(policy):
    policy.stops = set(range(30))
    read, answers = [], []
    for bucketed in (False, True):
        before = policy.processed
        replies = replies_of(sampler(policy, bucketed), sampling=Sampling(20, 0.0))
        answers.append([(reply.tokens, reply.finish) for reply in replies])
        read.append(policy.processed - before)
    assert answers[0] == answers[1]
    assert read[0] == read[1]


def test_a_second_batch_reuses_the_buffers_and_a_larger_one_gets_new_ones(policy):
    own = sampler(policy, bucketed=True)
    own_decoder = own.decoder
    replies_of(own)
    first = own_decoder.buffers
    assert_as_in_a_whole_pass(policy, replies_of(own))
    assert own_decoder.buffers is first
    long = [[3, *range(40, 200), 4], [9, 10]]
    many = replies_of(own, long, Sampling(100), copies=20)
    assert_as_in_a_whole_pass(policy, many, long, copies=20)
    assert own_decoder.buffers is not first
    assert own_decoder.buffers.fits(40, first.columns)


@pytest.mark.parametrize("lora", [0, 4])
def test_new_weights_are_taken_over(tiny, settings, lora):
    policy = Policy(tiny, replace(settings, lora=lora))
    own = sampler(policy, bucketed=True)
    replies_of(own)
    with torch.no_grad():
        for parameter in policy.trainable:
            parameter.add_(0.02 * torch.randn(parameter.shape))
    own.sync(policy)
    assert_as_in_a_whole_pass(policy, replies_of(own))
