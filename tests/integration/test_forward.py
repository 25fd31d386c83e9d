"""Shared prefixes and choice trees give what a plain pass over every whole sequence gives."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from metis.core import Sampling
from metis.curricula.judges.prompt import single, turns
from metis.curricula.judges.scale import VARIANCE
from metis.engines.local.attention.blocks import supports
from metis.engines.local.engine import LocalEngine
from metis.engines.local.generate.sampling import OwnSampler, ordered_replies, parts
from metis.engines.local.model.forward import token_logprobs
from metis.engines.tokens.choices import ChoiceTree
from metis.engines.tokens.encoding import encode_chats
from metis.engines.tokens.packing import ONE_BATCH, Layout, PrefixGroup, Row, sequence_row
from metis.tasks.arithmetic import Arithmetic, build
from scripted import exemplar

EXAMPLES = [exemplar("What is 1 + 2?", 0.0), exemplar("What is 12 + 2?", 0.1)]
CHATS = turns([f"What is {a} + {b}?" for a, b in ((1, 1), (23, 4), (567, 89))], EXAMPLES)


def brute(policy, sequence: list[int], temperature: float = 1.0) -> torch.Tensor:
    """Log-probability of every token of one whole sequence, from the model's own logits."""
    tokens = torch.tensor([sequence])
    logits = policy.network(input_ids=tokens).logits[0, :-1] / temperature
    return torch.log_softmax(logits, dim=-1).gather(1, tokens[0, 1:, None])[:, 0]


def rows(seed: int, count: int, shared: int) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    prefix = generator.integers(0, 250, shared).tolist()
    return [prefix + generator.integers(0, 250, 3 + 2 * i).tolist() for i in range(count)]


def row(sequence: list[int], prompt: int, skip: int) -> Row:
    return sequence_row(np.array(sequence), np.arange(len(sequence)) >= prompt, skip)


@pytest.mark.parametrize("skip", [0, 1, 6, 7])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_a_bundle_equals_whole_sequences(policy, skip, temperature):
    sequences = rows(0, 4, 8)
    parts = [row(s, 8, skip) for s in sequences]
    found = token_logprobs(policy, PrefixGroup(sequences[0][:skip], parts), temperature)
    wanted = torch.cat([brute(policy, s, temperature)[7:] for s in sequences])
    assert torch.allclose(found, wanted, atol=1e-5)


def test_gradients_flow_through_the_shared_prefix(policy):
    sequences = rows(1, 3, 6)
    parts = [row(s, 6, 5) for s in sequences]
    token_logprobs(policy, PrefixGroup(sequences[0][:5], parts)).sum().backward()
    found = [p.grad.clone() for p in policy.trainable]
    policy.network.zero_grad()
    torch.cat([brute(policy, s)[5:] for s in sequences]).sum().backward()
    for one, other in zip(found, policy.trainable, strict=True):
        assert torch.allclose(one, other.grad, atol=1e-5)


def test_a_budget_only_changes_the_cut(policy):
    sequences = rows(2, 6, 4)
    parts = [row(s, 4, 3) for s in sequences]
    bundle = PrefixGroup(sequences[0][:3], parts)
    whole = token_logprobs(policy, bundle)
    for budget in (1, 10, 30, 10_000):
        pieces = list(bundle.split(budget))
        assert sum(len(piece.rows) for piece in pieces) == 6
        cut = torch.cat([token_logprobs(policy, piece) for piece in pieces])
        assert torch.allclose(cut, whole, atol=1e-5)


def test_a_choice_tree_holds_every_choice_once():
    tree = ChoiceTree.of([[1, 2, 3], [1, 2, 4], [1, 5], [1]])
    assert (tree.tokens, tree.parents) == ([1, 2, 3, 4, 5], [-1, 0, 1, 1, 0])
    assert tree.paths == [[0, 1, 2], [0, 1, 3], [0, 4], [0]]
    made = tree.row([7, 8])
    assert made.tokens.tolist() == [7, 8, 1, 2]
    assert made.tree.depth.tolist() == [0, 1]
    assert made.tree.sees.tolist() == [[True, False], [True, True]]
    assert made.positions.tolist() == [1, 2, 3, 3, 2]
    assert made.wanted.tolist() == [1, 2, 3, 4, 5]


def test_logits_in_chunks_are_the_same_with_and_without_gradients(policy, monkeypatch):
    bundle = PrefixGroup([], [row(s, 2, 0) for s in rows(3, 4, 4)])
    whole = token_logprobs(policy, bundle)
    whole.sum().backward()
    wanted = [p.grad.clone() for p in policy.trainable]
    policy.network.zero_grad()
    monkeypatch.setattr("metis.engines.local.model.head.LOGIT_CHUNK", 3 * 258)
    cut = token_logprobs(policy, bundle)
    cut.sum().backward()
    assert torch.allclose(whole, cut, atol=1e-6)
    for one, other in zip(wanted, policy.trainable, strict=True):
        assert torch.allclose(one, other.grad, atol=1e-5)


@pytest.mark.parametrize("skip", [0, 1, 8, 200])
@pytest.mark.parametrize(
    ("shares", "given"), [(True, ONE_BATCH), (True, Layout(1, 1)), (False, Layout(3))]
)
def test_trees_on_a_shared_prefix_equal_whole_rows(policy, monkeypatch, skip, shares, given):
    contexts = encode_chats(policy, CHATS)
    tree = ChoiceTree.of([policy.encode_reply(choice) for choice in VARIANCE.choices])
    weights = torch.from_numpy(np.random.default_rng(0).normal(size=3 * len(tree.tokens))).float()

    def logprobs_and_gradients(skip):
        rows = [tree.row(context[skip:]) for context in contexts]
        policy.network.zero_grad()
        logprobs = token_logprobs(policy, PrefixGroup(contexts[0][:skip], rows, given))
        (logprobs * weights).sum().backward()
        return logprobs, [parameter.grad.clone() for parameter in policy.trainable]

    wanted, wanted_gradients = logprobs_and_gradients(0)
    assert policy.plain
    monkeypatch.setattr(policy, "plain", shares)
    found, gradients = logprobs_and_gradients(skip)
    assert torch.allclose(found, wanted, atol=1e-5)
    for one, other in zip(gradients, wanted_gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-4)


def test_a_network_with_windows_or_soft_caps_keeps_its_own_attention(policy, monkeypatch):
    network = policy.base
    assert supports(network)
    for name, value in (
        ("sliding_window", 512),
        ("attn_logit_softcapping", 50.0),
        ("keep_window_size", 2048),
        ("lambda_std_dev", 0.1),
        ("layer_types", ["full_attention", "sliding_attention"]),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(network.config, name, value, raising=False)
            assert not supports(network)


@pytest.mark.parametrize("asking", [turns, single])
def test_scores_equal_a_brute_force_pass(settings, policy, asking):
    engine = LocalEngine(settings, build(Arithmetic(prompts=4, heldout=2), 0))
    chats = asking(["What is 1 + 1?", "What is 204 + 31?"], EXAMPLES)
    found = engine.score(chats, VARIANCE.choices)
    for chat, row in zip(chats, found, strict=True):
        context = policy.encode_chat(chat)
        for choice, value in zip(VARIANCE.choices, row, strict=True):
            reply = policy.encode_reply(choice)
            with torch.no_grad():
                wanted = brute(policy, context + reply)[len(context) - 1 :].sum()
            assert value == pytest.approx(float(wanted), abs=1e-4)


def test_a_chat_that_does_not_fit_is_not_judged_and_harms_no_other(settings):
    engine = LocalEngine(settings, build(Arithmetic(prompts=4, heldout=2), 0))
    texts = ["What is 1 + 1?", "x" * engine.policy.context]
    chats = turns(texts, EXAMPLES)
    fits, long = engine.score(chats, VARIANCE.choices)
    assert fits == pytest.approx(engine.score(chats[:1], VARIANCE.choices)[0], abs=1e-5)
    assert set(long) == {-math.inf}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_sampling_reports_the_log_probabilities_it_drew_from(policy):
    prompts = [policy.encode_reply(text) for text in ("one", "three words here", "x")]
    replies = ordered_replies(
        OwnSampler(policy, 100).sample(prompts, 3, Sampling(12, 0.8), generator())
    )
    assert len(replies) == 9
    for i, reply in enumerate(replies):
        prompt = prompts[i // 3]
        wanted = brute(policy, prompt + reply.tokens, 0.8)[len(prompt) - 1 :]
        assert np.allclose(reply.logprobs, wanted.detach().numpy(), atol=1e-4)
        ended = reply.tokens[-1] in policy.stops
        assert reply.finish == ("stop" if ended else "length")
        assert ended or len(reply.tokens) == 12


def test_replies_are_handed_over_as_they_end(policy):
    prompts = [policy.encode_reply(text) for text in ("one", "three words here", "x")]
    tight = [[*prompts[0]], [7] * (policy.context - 3), prompts[2]]
    handed, processed = [], []
    for place, reply in OwnSampler(policy, 100).sample(tight, 2, Sampling(12), generator()):
        handed.append((place, reply))
        processed.append(policy.processed)
    assert {place for place, _ in handed[:2]} == {2, 3}, "those with little room end first"
    assert processed[0] < processed[-1], "the others were not yet generated then"
    assert ordered_replies(handed) == ordered_replies(
        OwnSampler(policy, 100).sample(tight, 2, Sampling(12), generator())
    )
    few = OwnSampler(policy, 2).sample(tight, 2, Sampling(12), generator())
    assert [place // 2 for place, _ in few] == [0, 0, 1, 1, 2, 2]


def test_each_prompt_may_have_its_own_number_of_replies(policy):
    prompts = [policy.encode_reply(text) for text in ("one", "three words here", "x")]
    for rows in (1, 3, 100):
        sampled = OwnSampler(policy, rows).sample(prompts, [1, 4, 2], Sampling(6), generator())
        replies = ordered_replies(sampled)
        for reply, place in zip(replies, [0, 1, 1, 1, 1, 2, 2], strict=True):
            wanted = brute(policy, prompts[place] + reply.tokens)[len(prompts[place]) - 1 :]
            assert np.allclose(reply.logprobs, wanted.detach().numpy(), atol=1e-4)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 20))
def test_parts_hold_all_prompts_in_order_and_no_more_rows_than_fit(counts, rows):
    cut = list(parts(counts, rows))
    assert [n for part in cut for n in counts[part]] == counts
    for part, following in zip(cut, [*cut[1:], None], strict=True):
        assert sum(counts[part]) <= rows or len(counts[part]) == 1
        assert following is None or sum(counts[part]) + counts[following.start] > rows


def test_greedy_sampling_does_not_depend_on_its_company(policy):
    prompts = [policy.encode_reply(text) for text in ("a", "bcd", "efghij")]
    together = ordered_replies(
        OwnSampler(policy, 100).sample(prompts, 1, Sampling(10, 0.0), generator())
    )
    apart = [
        ordered_replies(OwnSampler(policy, 100).sample([p], 1, Sampling(10, 0.0), generator()))[0]
        for p in prompts
    ]
    assert [r.tokens for r in together] == [r.tokens for r in apart]


def test_the_same_seed_samples_the_same(policy):
    prompts = [policy.encode_reply("again")]
    first, second, other = (
        ordered_replies(
            OwnSampler(policy, 100).sample(prompts, 4, Sampling(8, 1.0), generator(seed))
        )
        for seed in (1, 1, 2)
    )
    assert [r.tokens for r in first] == [r.tokens for r in second] != [r.tokens for r in other]


def test_a_nucleus_of_almost_nothing_is_greedy(policy):
    prompts = [policy.encode_reply("nucleus")]
    narrow = ordered_replies(
        OwnSampler(policy, 100).sample(prompts, 2, Sampling(6, 1.0, top_p=1e-6), generator())
    )
    [greedy] = ordered_replies(
        OwnSampler(policy, 100).sample(prompts, 1, Sampling(6, 0.0), generator())
    )
    assert all(reply.tokens == greedy.tokens for reply in narrow)


def test_a_stop_string_ends_a_reply(policy):
    prompts = [policy.encode_reply("stop")]
    [free] = ordered_replies(
        OwnSampler(policy, 100).sample(prompts, 1, Sampling(12, 0.0), generator())
    )
    text = policy.decode(free.tokens[:4])
    sampling = Sampling(12, 0.0, stop=(text[-1],))
    [stopped] = ordered_replies(OwnSampler(policy, 100).sample(prompts, 1, sampling, generator()))
    assert stopped.finish == "stop" and len(stopped.tokens) <= 4
