"""The loss on verl's workers: stock `ppo_loss` for rollouts, and Eq. 9 for the judge's rows.

A judge's row has an empty `response_mask`, so that nothing of verl's loss touches it, whatever its
aggregation, KL or entropy terms; its own tokens are in `judge_mask`. What else the loss has to
know of a row is in one column of numbers, `judge`.
"""

from typing import Any, NamedTuple

import torch
from verl.utils import tensordict_utils
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import no_padding_2_padding


class JudgeColumn(NamedTuple):
    """The numbers of a row, in the order in which the column `judge` holds them.

    advantage    of the judgment, a constant; 0 for rollouts
    coefficient  lambda, the mean over tokens, the mean over the judgments of the mini-batch, and
                 the bound on the judge's gradient
    clip         1: bound the ratio to the policy that judged
    whole        1: the sequence is one unit (a scored choice); 0: each token is (a sampled reply)
    rollouts     how many rollouts the mini-batch has: the denominator of the means over sequences
    """

    advantage: Any = 0.0
    coefficient: Any = 0.0
    clip: Any = 0.0
    whole: Any = 0.0
    rollouts: Any = 0.0

    @classmethod
    def of(cls, data: Any) -> "JudgeColumn":
        """The column of a micro-batch; it may arrive as a nested tensor."""
        column = data["judge"]
        column = column.values() if column.is_nested else column
        return cls(*column.reshape(-1, len(cls._fields)).unbind(-1))


def metis_loss(
    config: Any, model_output: Any, data: Any, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, Any]]:
    """L = L_policy + L_judge (Eq. 10) of a micro-batch, in the form verl's workers call."""
    column = JudgeColumn.of(data)
    tensordict_utils.assign_non_tensor(
        data,
        global_batch_size=int(column.rollouts[0]),
        batch_num_tokens=max(1, data["batch_num_tokens"]),  # of judgments alone there are none
    )
    loss, metrics = ppo_loss(config, model_output, data, dp_group)
    log_probs = no_padding_2_padding(model_output["log_probs"], data)
    padded = data.select("judge_mask", "old_log_probs").to_padded_tensor()
    judge = data["dp_size"] * judge_loss(
        log_probs,
        padded["old_log_probs"],
        padded["judge_mask"],
        column,
        config.clip_ratio if config.clip_ratio_low is None else config.clip_ratio_low,
        config.clip_ratio if config.clip_ratio_high is None else config.clip_ratio_high,
    )
    metrics["actor/judge_loss"] = Metric(value=judge, aggregation=AggregationType.SUM)
    return loss + judge, metrics


def judge_loss(
    log_probs: torch.Tensor,
    old_log_probs: torch.Tensor,
    mask: torch.Tensor,
    column: JudgeColumn,
    low: float,
    high: float,
) -> torch.Tensor:
    """-(sum of coefficient * objective); the objective is advantage * log-probability, or clipped.

    A reply has a ratio for each token, a choice one for all of it.
    """

    def objective(now: torch.Tensor, old: torch.Tensor, advantage: torch.Tensor) -> torch.Tensor:
        ratio = torch.exp(now - old)
        bounded = torch.clamp(ratio, 1 - low, 1 + high)
        clipped = torch.minimum(ratio * advantage, bounded * advantage)
        clip = column.clip.reshape(advantage.shape).bool()
        return torch.where(clip, clipped, advantage * now)

    now, old = log_probs * mask, old_log_probs * mask
    by_token = (objective(now, old, column.advantage[:, None]) * mask).sum(-1)
    by_choice = objective(now.sum(-1), old.sum(-1), column.advantage)
    value = torch.where(column.whole.bool(), by_choice, by_token)
    total: torch.Tensor = (column.coefficient * value).sum()
    return -total
