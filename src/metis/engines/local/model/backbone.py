"""The backbone of a separate value model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from metis.engines.local.model.hidden_states import embed_tokens, last_states, parts
from metis.engines.local.model.policy import Policy


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
