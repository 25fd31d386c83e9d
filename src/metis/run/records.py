"""The log rows of a step, and the metrics of its batch."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from metis.core import Batch, Group
from metis.signal import advantages

LEAST = 0.01
"""Smallest probability of a judge's answer that is logged, to two digits."""


def batch_metrics(batch: Batch) -> dict[str, float]:
    """Metrics of the batch: mean reward, variance, and absolute advantage."""
    groups = [group for group in batch.groups if group.variance is not None]
    metrics = {"batch/groups": float(len(batch.groups))}
    if groups:
        metrics |= {
            "batch/reward": float(np.mean([g.mean for g in groups if g.mean is not None])),
            "batch/variance": float(np.mean([g.variance or 0.0 for g in groups])),
            "batch/advantage": float(np.mean([abs(advantages(g.rewards)).mean() for g in groups])),
            "batch/informative": float(np.mean([g.informative for g in groups])),
        }
    return metrics | _reported(batch)


def _reported(batch: Batch) -> dict[str, float]:
    """The mean of each number that reward functions report, over the rollouts that have it."""
    by_name: dict[str, list[float]] = {}
    for report in (report for group in batch.groups for report in group.reports):
        for name, value in report.items():
            if not isinstance(value, str):
                by_name.setdefault(f"reward/{name}", []).append(value)
    return {name: float(np.mean(values)) for name, values in sorted(by_name.items())}


def judgment_rows(step: int, batch: Batch) -> Iterator[dict[str, Any]]:
    """One row per candidate: its prediction, whether it was rolled out, and the outcome."""
    variances = {group.prompt.id: group.variance for group in batch.groups}
    for decision in batch.decisions:
        likely = {
            answer: round(p, 2) for answer, p in (decision.distribution or {}).items() if p >= LEAST
        }
        row = {
            "step": step,
            "prompt": decision.prompt.id,
            "chosen": decision.chosen,
            "reason": decision.reason,
            "score": decision.score,
            "v_hat": decision.v_hat,
            "failure": decision.failure,
            "distribution": likely or None,
            "variance": variances.get(decision.prompt.id) if decision.chosen else None,
            "propensity": decision.propensity,
            "reply": decision.reply,
        }
        yield {name: value for name, value in row.items() if value is not None}


def exemplar_rows(step: int, batch: Batch) -> Iterator[dict[str, Any]]:
    """One row per exemplar of the step's judge prompts."""
    for exemplar in batch.exemplars:
        yield {
            "step": step,
            "prompt": exemplar.prompt.id,
            "value": exemplar.value,
            "variance": exemplar.variance,
            "outcome_step": exemplar.step,
        }


def group_columns(group: Group) -> dict[str, Any]:
    """A group's prompt, rewards, tokens written, and number of failed rollouts."""
    return {
        "prompt": group.prompt.id,
        "category": group.prompt.category,
        "rewards": list(group.rewards),
        "tokens": [int(trajectory.loss_mask.sum()) for trajectory in group.trajectories],
        "failed": group.failed,
    }


def rollout_rows(step: int, batch: Batch) -> Iterator[dict[str, Any]]:
    """One row per trained group."""
    for group in batch.groups:
        row = {"step": step, **group_columns(group)}
        if group.reports:
            row["reported"] = [dict(report) for report in group.reports]
        yield row
