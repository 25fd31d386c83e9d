"""One optimizer step on Eq. 10: the policy's gradient, the bounded judge's gradient, AdamW.

With a bound, the two gradients are computed one after the other: the policy's is clipped by itself,
the judge's is scaled to at most `gradient_share` of the policy's running mean norm. Without a bound
both are computed and clipped together.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch

from metis.engines.local.model.policy import Policy
from metis.engines.local.settings import LocalSettings
from metis.engines.local.update.gradients import Losses, backward
from metis.engines.local.update.rows import MiniBatch
from metis.engines.local.update.stopwatch import UNTIMED, Stopwatch
from metis.engines.objective.gradient_bound import GradientBound
from metis.errors import NON_FINITE_LIMIT, MetisError


class Stepper:
    """AdamW on the policy's weights, with the state of the gradient bound."""

    def __init__(self, policy: Policy, settings: LocalSettings) -> None:
        self.policy, self.settings = policy, settings
        self.optimizer = torch.optim.AdamW(
            policy.trainable,
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=policy.device.type in ("cpu", "cuda"),
        )
        self.bound = GradientBound(settings.gradient_clip)
        self.non_finite = 0

    def step(
        self, minibatch: MiniBatch, gradient_share: float, judging: Stopwatch = UNTIMED
    ) -> dict[str, float]:
        """Backward and step; a non-finite step is skipped, and stops the run if it persists."""
        self.optimizer.zero_grad(set_to_none=True)
        bounded = gradient_share > 0 and bool(minibatch.judgments)
        if bounded:
            losses, norm, metrics = self._bounded(minibatch, gradient_share, judging)
        else:
            losses = backward(self.policy, minibatch.items, self.settings, judging)
            norm, metrics = self._clip(), {}
        finite = all(map(math.isfinite, (norm, losses.policy, losses.judge, *metrics.values())))
        if finite:
            self.optimizer.step()
            if bounded and not minibatch.answers:
                metrics["update/judge_only"] = self._applied()
        self._count(finite)
        return {
            "loss/policy": losses.policy if finite else 0.0,
            "loss/judge": losses.judge if finite else 0.0,
            "update/gradient_norm": norm if finite else 0.0,
            "update/clipped": losses.clipped / max(1, losses.terms),
            **(
                {"update/entropy": losses.entropy / losses.tokens}
                if finite and losses.tokens
                else {}
            ),
            "update/non_finite": float(not finite),
            **(metrics if finite else {}),
        }

    def _bounded(
        self, minibatch: MiniBatch, gradient_share: float, judging: Stopwatch
    ) -> tuple[Losses, float, dict[str, float]]:
        """Policy gradient plus bounded judge gradient; the norm is the policy's, unclipped."""
        losses, norm = Losses(), 0.0
        if minibatch.answers:
            losses = backward(self.policy, minibatch.answers, self.settings)
            norm = self._clip()
            if math.isfinite(norm):
                self.bound.note(min(norm, self.settings.gradient_clip or norm))
        with judging.running(1.0):
            kept = [weight.grad for weight in self.policy.trainable]
            for weight in self.policy.trainable:
                weight.grad = None
        losses += backward(self.policy, minibatch.judgments, self.settings, judging)
        with judging.running(1.0):
            judge = float(torch.nn.utils.get_total_norm(self._gradients()))
            scale = self.bound.scale(gradient_share, judge)
            for weight, policy in zip(self.policy.trainable, kept, strict=True):
                if weight.grad is not None:
                    weight.grad.mul_(scale)
                if policy is not None:
                    weight.grad = policy if weight.grad is None else policy.add_(weight.grad)
        ratio = scale * judge / self.bound.reference
        return losses, norm, {"judge/gradient_norm": judge, "judge/gradient_ratio": ratio}

    def _clip(self) -> float:
        limit = self.settings.gradient_clip or math.inf
        return float(torch.nn.utils.clip_grad_norm_(self.policy.trainable, limit))

    def _gradients(self) -> list[torch.Tensor]:
        return [weight.grad for weight in self.policy.trainable if weight.grad is not None]

    @torch.no_grad()
    def _applied(self) -> float:
        """Norm of the last weight change without weight decay, from AdamW's moments.

        AdamW normalises the gradient, so the bound has no effect where only the judge has one.
        """
        group = self.optimizer.param_groups[0]
        (first, second), epsilon, rate = group["betas"], group["eps"], group["lr"]
        squares = []
        for weight in self.policy.trainable:
            state: dict[str, Any] = self.optimizer.state.get(weight, {})
            if not state:
                continue
            steps = float(state["step"])
            mean = state["exp_avg"] / (1 - first**steps)
            deviation = (state["exp_avg_sq"] / (1 - second**steps)).sqrt() + epsilon
            squares.append((mean / deviation).square().sum())
        return rate * float(torch.stack(squares).sum().sqrt()) if squares else 0.0

    def _count(self, finite: bool) -> None:
        self.non_finite = 0 if finite else self.non_finite + 1
        if self.non_finite >= NON_FINITE_LIMIT:
            raise MetisError(
                f"engine.learning_rate = {self.settings.learning_rate}: loss or gradient was not "
                f"finite {NON_FINITE_LIMIT} times in a row; lower it, and resume from the last "
                "checkpoint with --out of this run"
            )


def mean_metrics(steps: Iterable[dict[str, float]]) -> dict[str, float]:
    """The mean of each metric over the optimizer steps that have it."""
    values: dict[str, list[float]] = {}
    for step in steps:
        for name, value in step.items():
            values.setdefault(name, []).append(value)
    return {name: math.fsum(some) / len(some) for name, some in values.items()}
