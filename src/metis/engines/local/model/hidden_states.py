"""Hidden states of the last token of prompts, in some layers, batched."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from metis.core import LAST
from metis.engines.hidden_states import layers_at, padded
from metis.engines.local.model.forward import prefix_cache
from metis.engines.local.model.policy import Policy
from metis.engines.tokens.packing import shareable


def parts(sequences: Sequence[list[int]], budget: int) -> list[list[int]]:
    """Group indices of sequences by length into batches of at most `budget` padded tokens."""
    made: list[list[int]] = []
    for i in sorted(range(len(sequences)), key=lambda i: -len(sequences[i])):
        longest = len(sequences[made[-1][0]]) if made else budget
        if not made or longest * (len(made[-1]) + 1) > budget:
            made.append([])
        made[-1].append(i)
    return made


def last_states(
    policy: Policy,
    sequences: Sequence[list[int]],
    prefix: Sequence[int] = (),
    depths: Sequence[float] = LAST,
) -> torch.Tensor:
    """Hidden states of the last tokens of one batch, on top of a shared prefix."""
    tokens, sizes = padded(sequences)
    with policy.autocast():
        cache = prefix_cache(policy, list(prefix), len(sequences)) if prefix else None
        layers = _at_depths(policy, tokens.to(policy.device), cache, depths)
    policy.processed += int(sizes.sum())
    rows = torch.arange(len(sequences), device=policy.device)
    ends = sizes.to(policy.device) - 1
    return torch.cat([states[rows, ends].float() for states in layers], dim=1)


def _at_depths(
    policy: Policy, tokens: torch.Tensor, cache: Any, depths: Sequence[float]
) -> list[torch.Tensor]:
    given = {"input_ids": tokens, "past_key_values": cache}
    if tuple(depths) == LAST:
        return [policy.states(**given)]
    layers = policy.every_layer(**given)
    return [layers[layer] for layer in layers_at(depths, len(layers) - 1)]


@torch.no_grad()
def embed_tokens(
    policy: Policy, sequences: Sequence[list[int]], budget: int, depths: Sequence[float] = LAST
) -> torch.Tensor:
    """Hidden states of the last tokens, in batches of at most `budget` padded tokens.

    On a CPU without sliding windows, the common prefix is computed once per batch; a GPU is faster
    without.
    """
    latest = [len(tokens) - 1 for tokens in sequences]
    alone = policy.wide or policy.windowed
    skip = 0 if alone else shareable(sequences, latest, policy.layout.aligned)
    rests, prefix = [tokens[skip:] for tokens in sequences], sequences[0][:skip]
    order = parts(rests, budget)
    states = [last_states(policy, [rests[i] for i in part], prefix, depths) for part in order]
    places = torch.tensor([i for part in order for i in part]).argsort()
    return torch.cat(states)[places.to(policy.device)]


@dataclass(frozen=True)
class ValueBackbone:
    """A copy of the initial policy, trained with the value head; `budget` tokens per pass."""

    policy: Policy
    budget: int
    checkpointing: bool

    @property
    def processed(self) -> int:
        return self.policy.processed

    def states(self, sequences: Sequence[list[int]]) -> torch.Tensor:
        return embed_tokens(self.policy, sequences, self.budget)

    def passes(self, sequences: Sequence[list[int]]) -> Iterator[tuple[list[int], torch.Tensor]]:
        for part in parts(sequences, self.budget):
            yield part, last_states(self.policy, [sequences[i] for i in part])

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        parameters: Iterator[tuple[str, nn.Parameter]] = self.policy.backbone.named_parameters()
        return parameters

    def train(self, on: bool) -> None:
        """Training mode only turns on gradient checkpointing; dropout stays off."""
        self.policy.network.train(on and self.checkpointing)
