"""Heads on the hidden states of prompts, in float32: an MLP, and attention to evidence."""

import math

import torch
from torch import nn
from torch.nn import functional

from metis.core.predictors import AttentionModel, Predictor, ValueModel


def made(model: Predictor, size: int) -> nn.Module:
    """The head of a predictor, on hidden states of `size` dimensions."""
    if isinstance(model, ValueModel):
        return ValueHead(size, model)
    return AttentionHead(size, model)


class ValueHead(nn.Module):
    """An MLP with one hidden layer and a scalar output, 0 for every prompt until it is trained."""

    def __init__(self, size: int, model: ValueModel) -> None:
        super().__init__()
        last = nn.Linear(model.hidden, 1)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.layers = nn.Sequential(
            nn.LayerNorm(size), nn.Linear(size, model.hidden), nn.GELU(), last
        )

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        value: torch.Tensor = self.layers(states)[:, 0]
        return value


class AttentionHead(nn.Module):
    """The logit of a value: a softmax-weighted mean of the evidence, calibrated to its spread."""

    def __init__(self, size: int, model: AttentionModel) -> None:
        super().__init__()
        self.queries, self.references = _tower(size, model), _tower(size, model)
        self.calibration = nn.Sequential(nn.Linear(2, 10), nn.ReLU(), nn.Linear(10, 2))

    def forward(
        self, states: torch.Tensor, evidence: torch.Tensor, values: torch.Tensor, own: torch.Tensor
    ) -> torch.Tensor:
        """`own` marks which of the evidence is the prompt itself; with no other, it says 1/2."""
        queries, references = self.queries(states), self.references(evidence)
        scores = queries @ references.T / math.sqrt(queries.shape[1])
        weights = torch.softmax(scores.masked_fill(own, torch.finfo(scores.dtype).min), dim=1)
        base = torch.where(own.all(dim=1), 0.5, weights @ values).clamp(1e-4, 1 - 1e-4)
        mean = values.mean() if len(values) else values.new_zeros(())
        spread = values.std() if len(values) > 1 else values.new_zeros(())
        a, b = self.calibration(torch.stack([mean, spread]))
        return torch.logit(base) / functional.softplus(a).clamp(0.01, 10) + torch.tanh(b)


def _tower(size: int, model: AttentionModel) -> nn.Sequential:
    """As published: an MLP of `layers` linear layers between two layer norms."""
    layers: list[nn.Module] = [nn.LayerNorm(size), nn.Linear(size, model.width)]
    for _ in range(model.layers - 1):
        layers += [nn.GELU(), nn.Dropout(model.dropout), nn.Linear(model.width, model.width)]
    return nn.Sequential(*layers, nn.LayerNorm(model.width))
