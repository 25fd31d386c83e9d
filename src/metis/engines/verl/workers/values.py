"""A separate value model on verl's critic worker.

verl builds the critic with critic.enable=True: a model with a linear head. Only its value at the
prompt's last token is used and trained.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ray
import torch
import transfer_queue
from torch.nn import functional
from transfer_queue import KVBatchMeta
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.padding import no_padding_2_padding, response_from_nested

from metis.core import Prompt
from metis.core.predictors import Predictor, ValueModel
from metis.engines.verl.launch.checks import check_value_model
from metis.engines.verl.workers.rows import (
    UpdateRow,
    ValueTarget,
    data_parallel_ranks,
    order_rows,
    put_rows,
    read_then_answer,
)
from metis.errors import MetisError

PARTITION = "values"


def value_loss(
    kind: str, model_output: Any, data: Any, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, Any]]:
    """The loss of a micro-batch's values."""
    target = ValueTarget.of(data)
    values = no_padding_2_padding(model_output["values"], data)[:, 0].float()
    if kind == "bce":
        errors = functional.binary_cross_entropy_with_logits(values, target.value, reduction="none")
    else:
        errors = functional.mse_loss(values, target.value, reduction="none")
    total = data["dp_size"] * (target.weight * errors).sum()
    return total, {"value_loss": Metric(value=total, aggregation=AggregationType.SUM)}


class ValueWorker:
    """Predicts with and trains one value model; `encode` tokenizes the policy's prompt."""

    def __init__(
        self, workers: Any, config: Any, encode: Callable[[Prompt], list[int]], filler: int
    ) -> None:
        self.workers, self.config, self.encode, self.filler = workers, config, encode, filler
        self.model: ValueModel | None = None

    def predict(self, prompts: Sequence[Prompt], model: Predictor) -> list[float]:
        self._settle(model)
        rows = [self._row(prompt, ValueTarget()) for prompt in prompts]
        batch = self._put([rows])
        batch.extra_info.update(compute_loss=False, temperature=1.0)
        try:
            ray.get(self.workers.infer_batch(batch).futures)
            columns = transfer_queue.kv_batch_get(
                keys=[row.key for row in rows],
                partition_id=PARTITION,
                select_fields=["values", "response_mask"],
            )
        finally:
            transfer_queue.kv_clear(keys=batch.keys, partition_id=PARTITION)
        values = response_from_nested(columns["values"], columns["response_mask"]).values().float()
        values = torch.sigmoid(values) if self._logistic else values
        if not bool(torch.isfinite(values).all()):
            raise MetisError(
                f"critic.optim.lr = {self.config.critic.optim.lr}: predictions of the value model "
                "are not finite; start a new run with a lower one"
            )
        said: list[float] = values.tolist()
        return said

    def fit(self, prompts: Sequence[Prompt], targets: Sequence[float], model: Predictor) -> float:
        """Train on the targets; returns the mean loss of the first epoch."""
        described = self._settle(model)
        pairs = list(zip(prompts, targets, strict=True))
        size = described.minibatch
        parts = [
            [self._row(prompt, ValueTarget(value, 1.0 / len(part))) for prompt, value in part]
            for part in (pairs[start : start + size] for start in range(0, len(pairs), size))
        ]
        batch = self._put(parts)
        batch.extra_info.update(
            global_batch_size=len(batch),
            num_mini_batch=len(parts),
            epochs=described.epochs,
            seed=self.config.critic.data_loader_seed,
            dataloader_kwargs={"shuffle": False},
            temperature=1.0,
        )
        try:
            metrics = self.workers.train_mini_batch(batch).get()["metrics"]
        finally:
            transfer_queue.kv_clear(keys=batch.keys, partition_id=PARTITION)
        first = metrics["value_loss"][: len(parts)]
        return float(sum(first) / len(first))

    def _settle(self, model: Predictor) -> ValueModel:
        """Check that the predictor is the one that the critic is used for."""
        if self.model is None:
            self.model = check_value_model(model, self.config)
            self.workers.set_loss_fn(partial(value_loss, self.model.loss))
        if model != self.model:
            raise MetisError("verl has one critic, and this curriculum needs two value models")
        return self.model

    @property
    def _logistic(self) -> bool:
        return self.model is not None and self.model.loss == "bce"

    def _row(self, prompt: Prompt, target: ValueTarget) -> UpdateRow:
        tokens = self.encode(prompt)
        return UpdateRow(read_then_answer(tokens, [self.filler]), target=target, kind="value")

    def _put(self, parts: list[list[UpdateRow]]) -> KVBatchMeta:
        spread = data_parallel_ranks(self.workers, "train")
        return put_rows(order_rows(parts, spread, self._multiple(), self.filler), PARTITION)

    def _multiple(self) -> int:
        critic = self.config.critic
        return 1 if critic.use_dynamic_bsz else int(critic.ppo_micro_batch_size_per_gpu)
