"""Models that learn to predict outcomes of prompts, beside the policy.

A value model is an MLP on the state of the prompt's last token: the policy's own, or that of a copy
of the initial policy which is trained along with it (Gao et al., arXiv 2510.01135, as METIS, App.
A.5 builds it). An attention model reads the value of a prompt off the values of its evidence (Sun
et al., arXiv 2506.05316). What is random (weights, order, dropout) is fixed by the seed and the
number of fits before, so that nothing else is disturbed or saved.
"""

import contextlib
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn import functional

from metis.core import Evidence, Prompt
from metis.core.predictors import AttentionModel, Predictor, ValueModel, has_own_backbone
from metis.engines.loading import reading
from metis.errors import NON_FINITE_LIMIT, MetisError

Encode = Callable[[Sequence[Prompt]], list[list[int]]]
"""Prompts -> token ids of their chats, as for rollouts."""


@dataclass(frozen=True)
class PredictorInput:
    """A batch for a predictor: prompts and evidence as indices into distinct `tokens`."""

    tokens: Sequence[list[int]]
    prompts: Sequence[int]
    evidence: Sequence[int] = ()
    values: Sequence[float] = ()

    @classmethod
    def of(cls, prompts: Sequence[Prompt], evidence: Evidence, encode: Encode) -> "PredictorInput":
        every = {prompt.id: prompt for prompt in [*prompts, *(prompt for prompt, _ in evidence)]}
        place = {prompt_id: i for i, prompt_id in enumerate(every)}
        return cls(
            tokens=encode(list(every.values())),
            prompts=[place[prompt.id] for prompt in prompts],
            evidence=[place[prompt.id] for prompt, _ in evidence],
            values=[value for _, value in evidence],
        )


@dataclass(frozen=True)
class Reader:
    """Reads the policy's hidden states, of `size` dimensions, for a head on `device`."""

    states: Callable[[Sequence[list[int]]], torch.Tensor]
    size: int
    device: torch.device


class Backbone(Protocol):
    """A separate language model, trained together with its head."""

    @property
    def processed(self) -> int:
        """Tokens of its forward passes so far."""

    def states(self, sequences: Sequence[list[int]]) -> torch.Tensor: ...

    def passes(self, sequences: Sequence[list[int]]) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Micro-batches: indices of sequences, and their hidden states with gradients."""

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...

    def train(self, on: bool) -> None: ...


class Learner:
    """A predictor in training: a head, its optimizer, and a backbone if it has its own."""

    def __init__(
        self,
        model: Predictor,
        reader: Reader,
        seed: int,
        copy: Callable[[], Backbone] | None = None,
    ) -> None:
        self.model, self.reader, self.seed = model, reader, seed
        with self._seeded("weights"):
            self.body = copy() if copy is not None and has_own_backbone(model) else None
            self.head = build_head(model, reader.size).to(reader.device).eval()
        self.optimizer = torch.optim.Adam(
            self.weights().values(),
            lr=model.learning_rate,
            fused=reader.device.type == "cuda",
        )
        self.fits = 0
        self.non_finite = 0

    def weights(self) -> dict[str, nn.Parameter]:
        """All trainable parameters, by name."""
        named = {f"head.{name}": weight for name, weight in self.head.named_parameters()}
        if self.body is not None:
            for name, weight in self.body.named_parameters():
                if weight.requires_grad:
                    named[f"body.{name}"] = weight
        return named

    @torch.no_grad()
    def predict(self, question: PredictorInput) -> list[float]:
        states = (self.body or self.reader).states(question.tokens)
        raw = self._read(question, states, torch.arange(len(question.prompts)))
        values = torch.sigmoid(raw) if self._logistic else raw
        if not bool(torch.isfinite(values).all()):
            raise self._broken("its predictions are not finite")
        predictions: list[float] = values.tolist()
        return predictions

    def fit(self, question: PredictorInput, targets: Sequence[float]) -> float:
        """Train on the targets; returns the mean loss of the first epoch.

        An optimizer step that is not finite is skipped, and stops the run when that persists.
        """
        goal = torch.tensor(targets, dtype=torch.float32, device=self.reader.device)
        states = None
        if self.body is None:  # frozen: the same states for all epochs
            states = self.reader.states(question.tokens)
        losses = []
        with self._seeded(f"fit {self.fits}"), self._training():
            for _ in range(self.model.epochs):
                batches = torch.split(torch.randperm(len(goal)), self.model.minibatch)
                losses.append([self._optimize(question, states, rows, goal) for rows in batches])
        self.fits += 1
        finite = [loss for loss in losses[0] if loss is not None]
        return sum(finite) / len(finite) if finite else 0.0

    def _optimize(
        self,
        question: PredictorInput,
        states: torch.Tensor | None,
        rows: torch.Tensor,
        goal: torch.Tensor,
    ) -> float | None:
        self.optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for part, raw in self._answers(question, states, rows):
            loss = self._losses(raw, goal[part.to(goal.device)]).sum() / len(rows)
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        limit = self.model.clip or math.inf
        norm = float(nn.utils.clip_grad_norm_(self.weights().values(), limit))
        finite = math.isfinite(total + norm)
        if finite:
            self.optimizer.step()
        self.non_finite = 0 if finite else self.non_finite + 1
        if self.non_finite >= NON_FINITE_LIMIT:
            raise self._broken(f"its loss was not finite {NON_FINITE_LIMIT} times in a row")
        return total if finite else None

    @property
    def _logistic(self) -> bool:
        return isinstance(self.model, AttentionModel) or self.model.loss == "bce"

    def _losses(self, raw: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        if self._logistic:
            return functional.binary_cross_entropy_with_logits(raw, goal, reduction="none")
        return functional.mse_loss(raw, goal, reduction="none")

    def _answers(
        self, question: PredictorInput, states: torch.Tensor | None, rows: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Predictions for the prompts of a mini-batch; in micro-batches with an own backbone."""
        if self.body is None:
            assert states is not None
            yield rows, self._read(question, states, rows)
            return
        sequences = [question.tokens[question.prompts[row]] for row in rows.tolist()]
        for part, states in self.body.passes(sequences):
            yield rows[part], self.head(states)

    def _read(
        self, question: PredictorInput, states: torch.Tensor, rows: torch.Tensor
    ) -> torch.Tensor:
        """The head's predictions for some of the prompts, given the states of all prompts."""
        places = torch.tensor(question.prompts)[rows].to(states.device)
        if isinstance(self.model, ValueModel):
            answers: torch.Tensor = self.head(states[places])
            return answers
        evidence = torch.tensor(question.evidence, dtype=torch.long, device=states.device)
        values = torch.tensor(question.values, dtype=torch.float32, device=states.device)
        answers = self.head(states[places], states[evidence], values, places[:, None] == evidence)
        return answers

    @contextlib.contextmanager
    def _training(self) -> Iterator[None]:
        """Training mode: dropout in the head, only gradient checkpointing in the backbone."""
        self.head.train()
        if self.body is not None:
            self.body.train(True)
        try:
            yield
        finally:
            self.head.eval()
            if self.body is not None:
                self.body.train(False)

    @contextlib.contextmanager
    def _seeded(self, purpose: str) -> Iterator[None]:
        devices = [self.reader.device] if self.reader.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(random.Random(f"{self.seed}/{purpose}").getrandbits(63))
            yield

    def _broken(self, what: str) -> MetisError:
        return MetisError(
            f"learning_rate = {self.model.learning_rate} of the {type(self.model).__name__}: "
            f"{what}; start a new run with a lower one"
        )

    def state_dict(self) -> dict[str, Any]:
        return {
            "weights": {name: weight.detach() for name, weight in self.weights().items()},
            "optimizer": self.optimizer.state_dict(),
            "fits": self.fits,
            "non_finite": self.non_finite,
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        with torch.no_grad():
            for name, weight in self.weights().items():
                weight.copy_(saved["weights"][name])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.fits, self.non_finite = saved["fits"], saved["non_finite"]


def build_head(model: Predictor, size: int) -> nn.Module:
    """The head of a predictor, for hidden states of `size` dimensions."""
    if isinstance(model, ValueModel):
        return ValueHead(size, model)
    return AttentionHead(size, model)


class ValueHead(nn.Module):
    """An MLP with one hidden layer and a scalar output, initialised to output 0."""

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
    """The logit of a value: the attention-weighted mean of the evidence, calibrated (DOTS)."""

    def __init__(self, size: int, model: AttentionModel) -> None:
        super().__init__()
        self.queries, self.references = _tower(size, model), _tower(size, model)
        self.calibration = nn.Sequential(nn.Linear(2, 10), nn.ReLU(), nn.Linear(10, 2))

    def forward(
        self, states: torch.Tensor, evidence: torch.Tensor, values: torch.Tensor, own: torch.Tensor
    ) -> torch.Tensor:
        """`own` masks the prompt's own evidence; without any other, the prediction is 1/2."""
        queries, references = self.queries(states), self.references(evidence)
        scores = queries @ references.T / math.sqrt(queries.shape[1])
        weights = torch.softmax(scores.masked_fill(own, torch.finfo(scores.dtype).min), dim=1)
        base = torch.where(own.all(dim=1), 0.5, weights @ values).clamp(1e-4, 1 - 1e-4)
        mean = values.mean() if len(values) else values.new_zeros(())
        spread = values.std() if len(values) > 1 else values.new_zeros(())
        a, b = self.calibration(torch.stack([mean, spread]))
        return torch.logit(base) / functional.softplus(a).clamp(0.01, 10) + torch.tanh(b)


def _tower(size: int, model: AttentionModel) -> nn.Sequential:
    """An MLP of `layers` linear layers between two layer norms, as published."""
    layers: list[nn.Module] = [nn.LayerNorm(size), nn.Linear(size, model.width)]
    for _ in range(model.layers - 1):
        layers += [nn.GELU(), nn.Dropout(model.dropout), nn.Linear(model.width, model.width)]
    return nn.Sequential(*layers, nn.LayerNorm(model.width))


def save_learner(folder: Path, number: int, learner: Learner) -> None:
    """Save a predictor beside the policy, under a number."""
    torch.save(learner.state_dict(), folder / f"learner-{number}.pt")


def load_learner(folder: Path, number: int, learner: Learner) -> None:
    """Load what `save_learner` wrote."""
    path = folder / f"learner-{number}.pt"
    with reading(path):
        saved = torch.load(path, map_location="cpu", weights_only=True)
    learner.load_state_dict(saved)
