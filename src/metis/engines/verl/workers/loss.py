"""The loss on verl's workers: verl's `ppo_loss` for rollouts, and Eq. 9 for the judge's rows.

A judge's row has an empty `response_mask`, so that verl's loss, with any aggregation, KL or entropy
term, ignores it. The tokens of a sampled reply are in `judge_mask`, the choices of a scored
judgment in `choices`, all other numbers of a row in the column `judge`.
"""

from typing import Any, NamedTuple

import torch
from verl.utils import tensordict_utils
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import no_padding_2_padding

from metis.engines.objective import loss
from metis.engines.verl.workers.scored import choices_loss, read_choices


class JudgeColumn(NamedTuple):
    """The entries of the column `judge` of a row, in order.

    advantage    of a sampled reply; 0 for other rows
    coefficient  the mean over the judgments of the mini-batch, times the gradient bound; for a
                 sampled reply also times lambda and the mean over its tokens
    clip         1: clip the importance ratio of a sampled reply
    rollouts     rollouts in the mini-batch: the denominator of means over sequences
    """

    advantage: Any = 0.0
    coefficient: Any = 0.0
    clip: Any = 0.0
    rollouts: Any = 0.0

    @classmethod
    def of(cls, data: Any) -> "JudgeColumn":
        """The column of a micro-batch."""
        return cls(*columns(data["judge"], len(cls._fields)))


def columns(numbers: torch.Tensor, count: int) -> tuple[torch.Tensor, ...]:
    """Split a column of `count` entries per row into tensors; it may be a nested tensor."""
    flat = numbers.values() if numbers.is_nested else numbers
    return flat.reshape(-1, count).unbind(-1)


def metis_loss(
    config: Any,
    model_output: Any = None,
    data: Any = None,
    dp_group: Any = None,
    student_logits: torch.Tensor | None = None,
) -> Any:
    """L = L_policy + L_judge (Eq. 10) of a micro-batch, with the signature of verl's loss.

    With scored judgments, verl calls it twice, first with the logits.
    """
    if student_logits is not None:
        return read_choices(student_logits, data)
    column = JudgeColumn.of(data)
    tensordict_utils.assign_non_tensor(
        data,
        global_batch_size=int(column.rollouts[0]),
        batch_num_tokens=max(1, data["batch_num_tokens"]),  # 0 with only judgments
    )
    policy, metrics = ppo_loss(config, model_output, data, dp_group)
    log_probs = no_padding_2_padding(model_output["log_probs"], data)
    padded = data.select("judge_mask", "old_log_probs").to_padded_tensor()
    low = config.clip_ratio if config.clip_ratio_low is None else config.clip_ratio_low
    high = config.clip_ratio if config.clip_ratio_high is None else config.clip_ratio_high
    replies = replies_loss(
        log_probs, padded["old_log_probs"], padded["judge_mask"], column, low, high
    )
    scored = choices_loss(model_output, data, column.coefficient, low, high)
    judge = data["dp_size"] * (replies + scored)
    metrics["actor/judge_loss"] = Metric(value=judge, aggregation=AggregationType.SUM)
    return policy + judge, metrics


def replies_loss(
    log_probs: torch.Tensor,
    old_log_probs: torch.Tensor,
    mask: torch.Tensor,
    column: JudgeColumn,
    low: float,
    high: float,
) -> torch.Tensor:
    """-(sum of coefficient * objective) over the tokens of sampled replies."""
    advantage, clip = column.advantage[:, None], column.clip[:, None].bool()
    log_ratio = (log_probs - old_log_probs) * mask
    objective, _ = loss.term_objective(log_probs, log_ratio, advantage, clip, low, high)
    total: torch.Tensor = (column.coefficient * (objective * mask).sum(-1)).sum()
    return -total
