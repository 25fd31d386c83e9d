"""Sampling with transformers: one prefill per prompt, then all copies token by token.

Finished sequences leave the batch at once and are yielded while the others continue.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch

from metis.core import Sampling
from metis.engines.local.generate import decoding
from metis.engines.local.generate.prefill import prefill
from metis.engines.local.model.policy import Policy


@dataclass
class SampledReply:
    """The tokens of a sampled reply, including EOS, with their log-probabilities."""

    tokens: list[int]
    logprobs: list[float]
    finish: Literal["stop", "length"] = "length"


def ordered_replies(replies: Iterable[tuple[int, SampledReply]]) -> list[SampledReply]:
    """The replies of a stream, sorted by index."""
    return [reply for _, reply in sorted(replies, key=lambda pair: pair[0])]


@torch.no_grad()
def stream_replies(
    policy: Policy,
    prompts: Sequence[list[int]],
    copies: int,
    sampling: Sampling,
    generator: torch.Generator,
    rows: int,
) -> Iterator[tuple[int, SampledReply]]:
    """Sample `copies` replies per prompt; yields (index, reply) as they finish, prompt-major."""
    per_chunk = max(1, rows // copies)
    for start in range(0, len(prompts), per_chunk):
        chunk = prompts[start : start + per_chunk]
        for place, reply in _stream_chunk(policy, chunk, copies, sampling, generator):
            yield start * copies + place, reply


def _stream_chunk(
    policy: Policy,
    prompts: Sequence[list[int]],
    copies: int,
    sampling: Sampling,
    generator: torch.Generator,
) -> Iterator[tuple[int, SampledReply]]:
    replies = [SampledReply([], []) for _ in range(len(prompts) * copies)]
    limits = [_room(policy, prompt, sampling) for prompt in prompts for _ in range(copies)]
    begun = prefill(policy, prompts, copies)
    mask, cache, logits = begun.mask, begun.cache, begun.logits
    active = list(range(len(replies)))
    while True:
        tokens, logprobs = _draw(logits, sampling, generator)
        going = []
        drawn = zip(active, tokens.tolist(), logprobs.tolist(), strict=True)
        for row, (i, token, logprob) in enumerate(drawn):
            reply = replies[i]
            reply.tokens.append(token)
            reply.logprobs.append(logprob)
            if token in policy.stops or _stopped(policy, reply, sampling):
                reply.finish = "stop"
            if reply.finish == "stop" or len(reply.tokens) >= limits[i]:
                yield i, reply
            else:
                going.append(row)
        if not going:
            return
        if len(going) < len(active):
            keep = torch.tensor(going, device=policy.device)
            mask, tokens = _keep(keep, cache, mask, tokens)
            active = [active[row] for row in going]
        mask, logits = _next(policy, cache, mask, tokens)


def _room(policy: Policy, prompt: list[int], sampling: Sampling) -> int:
    """Maximum tokens of a reply; callers ensure that it is at least 1."""
    return min(sampling.max_tokens, policy.context - len(prompt))


def _next(
    policy: Policy, cache: Any, mask: torch.Tensor, tokens: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
    attention = policy.attention(decoding.NAME) if policy.plain else nullcontext()
    with policy.autocast(), attention:
        hidden = policy.states(
            input_ids=tokens[:, None],
            attention_mask=mask,
            position_ids=mask.sum(1, keepdim=True) - 1,
            past_key_values=cache,
        )[:, -1]
        logits = policy.head(hidden)
    policy.processed += len(tokens)
    return mask, logits


def _keep(
    rows: torch.Tensor, cache: Any, mask: torch.Tensor, other: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    cache.batch_select_indices(rows)
    return mask[rows], other[rows]


def _draw(
    logits: torch.Tensor, sampling: Sampling, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sample one token per row; log-probabilities are before top_p; temperature 0 is greedy."""
    if sampling.temperature == 0:
        tokens = logits.argmax(dim=1)
        return tokens, torch.zeros(len(tokens))
    logprobs = torch.log_softmax(logits.float() / sampling.temperature, dim=1)
    weights = logprobs.exp()
    if sampling.top_p < 1:
        ordered, order = weights.sort(dim=1, descending=True)
        cut = ordered.cumsum(1) - ordered >= sampling.top_p
        weights = torch.zeros_like(weights).scatter(1, order, ordered.masked_fill(cut, 0.0))
    tokens = torch.multinomial(weights, 1, generator=generator)[:, 0]
    return tokens, logprobs.gather(1, tokens[:, None])[:, 0]


def _stopped(policy: Policy, reply: SampledReply, sampling: Sampling) -> bool:
    """True if the last tokens contain a stop string."""
    if not sampling.stop:
        return False
    tail = policy.decode(reply.tokens[-32:])
    return any(stop in tail for stop in sampling.stop)
