"""Sampling with our own decoding: one prefill per prompt, then all copies token by token.

Finished sequences are yielded while the others continue, and leave the batch: on a CPU at once, on
a GPU when that frees half of it.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch

from metis.core import Counts, Sampling, each_count
from metis.engines.local.generate.decoding import decoder_of
from metis.engines.local.model.policy import Policy

SPARE = -1
"""The reply of a row that has ended."""


@dataclass
class SampledReply:
    """The tokens of a sampled reply, including EOS, with their log-probabilities."""

    tokens: list[int]
    logprobs: list[float]
    finish: Literal["stop", "length"] = "length"


def ordered_replies(replies: Iterable[tuple[int, SampledReply]]) -> list[SampledReply]:
    """The replies of a stream, sorted by index."""
    return [reply for _, reply in sorted(replies, key=lambda pair: pair[0])]


class Sampler(Protocol):
    """Samples from the policy; `sync` follows every change of its weights."""

    processed: int
    """Tokens of its forward passes, beside the policy's own."""

    def sample(
        self,
        prompts: Sequence[list[int]],
        copies: Counts,
        sampling: Sampling,
        generator: torch.Generator,
    ) -> Iterator[tuple[int, SampledReply]]:
        """Sample `copies` replies per prompt; yields index and reply as they finish."""

    def sync(self, policy: Policy) -> None:
        """Take over the policy's weights."""

    def sleep(self) -> None:
        """Free GPU memory until the next call."""


def parts(counts: Sequence[int], rows: int) -> Iterator[slice]:
    """Cut consecutive prompts into parts of at most `rows` sequences, or of one prompt."""
    start, total = 0, 0
    for place, count in enumerate(counts):
        if place > start and total + count > rows:
            yield slice(start, place)
            start, total = place, 0
        total += count
    if counts:
        yield slice(start, len(counts))


class OwnSampler:
    """Samples with our own decoding, at most `rows` sequences at once."""

    processed = 0

    def __init__(self, policy: Policy, rows: int = sys.maxsize) -> None:
        self.policy, self.rows = policy, rows
        self.decoder = decoder_of(policy)

    @torch.no_grad()
    def sample(
        self,
        prompts: Sequence[list[int]],
        copies: Counts,
        sampling: Sampling,
        generator: torch.Generator,
    ) -> Iterator[tuple[int, SampledReply]]:
        counts, before = each_count(copies, prompts), 0
        for part in parts(counts, self.rows):
            for place, reply in self._chunk(prompts[part], counts[part], sampling, generator):
                yield before + place, reply
            before += sum(counts[part])

    def sync(self, policy: Policy) -> None:
        self.decoder.sync()

    def sleep(self) -> None:
        """Its buffers stay: CUDA graphs have their addresses."""

    def _chunk(
        self,
        prompts: Sequence[list[int]],
        copies: Sequence[int],
        sampling: Sampling,
        generator: torch.Generator,
    ) -> Iterator[tuple[int, SampledReply]]:
        policy, decoder = self.policy, self.decoder
        limits = [
            _room(policy, prompt, sampling)
            for prompt, count in zip(prompts, copies, strict=True)
            for _ in range(count)
        ]
        logits = decoder.begin(prompts, copies, max(limits) + decoder.every)
        replies = [SampledReply([], []) for _ in limits]
        order = [*range(len(limits)), *[SPARE] * (len(logits) - len(limits))]
        drawn: list[tuple[torch.Tensor, torch.Tensor]] = []
        while True:
            drawn.append(_draw(logits, sampling, generator))
            tokens = drawn[-1][0]
            if len(drawn) == decoder.every:
                for row, new in _by_row(drawn, order):
                    i = order[row]
                    if self._extend(replies[i], new, limits[i], sampling):
                        policy.processed += len(replies[i].tokens) - 1
                        order[row] = SPARE
                        yield i, replies[i]
                drawn = []
                going = [row for row, i in enumerate(order) if i != SPARE]
                if not going:
                    return
                kept = decoder.keep(going)
                if len(kept) < len(order):
                    order = [order[row] for row in kept[: len(going)]]
                    order += [SPARE] * (len(kept) - len(going))
                    tokens = tokens[torch.tensor(kept, device=policy.device)]
            logits = decoder.step(tokens)

    def _extend(
        self,
        reply: SampledReply,
        new: Iterable[tuple[int, float]],
        limit: int,
        sampling: Sampling,
    ) -> bool:
        """Append tokens up to the reply's end; True once it has ended."""
        for token, logprob in new:
            reply.tokens.append(token)
            reply.logprobs.append(logprob)
            if token in self.policy.stops or _stopped(self.policy, reply, sampling):
                reply.finish = "stop"
            if reply.finish == "stop" or len(reply.tokens) >= limit:
                return True
        return False


def _by_row(
    drawn: Sequence[tuple[torch.Tensor, torch.Tensor]], order: Sequence[int]
) -> Iterator[tuple[int, Iterable[tuple[int, float]]]]:
    """The drawn tokens and log-probabilities of each row that is not spare."""
    tokens = torch.stack([each for each, _ in drawn], dim=1).tolist()
    logprobs = torch.stack([each for _, each in drawn], dim=1).tolist()
    for row in [row for row, i in enumerate(order) if i != SPARE]:
        yield row, zip(tokens[row], logprobs[row], strict=True)


def _room(policy: Policy, prompt: list[int], sampling: Sampling) -> int:
    """Maximum tokens of a reply; callers ensure that it is at least 1."""
    return min(sampling.max_tokens, policy.context - len(prompt))


def _draw(
    logits: torch.Tensor, sampling: Sampling, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sample one token per row; log-probabilities are before top_p; temperature 0 is greedy."""
    if sampling.temperature == 0:
        tokens = logits.argmax(dim=1)
        return tokens, logits.new_zeros(len(tokens), dtype=torch.float32)
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
