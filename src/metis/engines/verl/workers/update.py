"""verl's actor update with METIS's mini-batches."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import transfer_queue
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.utils import need_reference_policy

from metis.core import Batch
from metis.engines.objective.gradient_bound import GradientBound
from metis.engines.tokens.encoding import Encoder
from metis.engines.verl.launch import checks
from metis.engines.verl.servers.rollouts import PARTITION
from metis.engines.verl.workers import lengths
from metis.engines.verl.workers.gradient_bound import bound_judgments
from metis.engines.verl.workers.rows import (
    UpdateRow,
    judge_share,
    minibatch_rows,
    order_rows,
    put_rows,
)
from metis.errors import NON_FINITE_LIMIT, MetisError

COMPUTED = ("old_log_probs", "ref_log_prob", "advantages", "rollout_is_weights")
"""Columns that verl computes before the update, for its policy loss."""


class Update:
    """Builds the rows of an update, and has the state of the gradient bound."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.bound = GradientBound()
        self.non_finite = 0
        self.count = 0
        """Number of mini-batches of the last step."""
        self.judged = 0.0
        """The judge's share of its compute."""
        self.folder = ""
        """verl's local copy of the model, if any."""
        self.rows: list[UpdateRow] = []
        """Rows of the last step, in order."""

    def cut(
        self,
        batch: Batch,
        encoder: Encoder,
        ground_truth: Callable[[str], Any],
        metrics: dict[str, Any],
    ) -> list[list[UpdateRow]]:
        """Split a batch into mini-batches, with the judge's gradient bounded in each."""
        if batch.judgments:
            checks.require_temperature(self.config.actor_rollout_ref.rollout)
        size = self.config.actor_rollout_ref.actor.ppo_mini_batch_size
        parts = minibatch_rows(batch, size, encoder, ground_truth)
        self._require_packing(parts)
        self._require_single_outputs(parts)
        self.count, self.judged = len(parts), judge_share(parts, self._passes_before())
        ratios = bound_judgments(parts, batch.gradient_share, self.bound)
        metrics.update({f"metis/{name}": value for name, value in ratios.items()})
        return parts

    def write(
        self, parts: Sequence[Sequence[UpdateRow]], ranks: int, filler: int, metrics: dict[str, Any]
    ) -> KVBatchMeta:
        """Put all rows except update-only ones into the TransferQueue."""
        self.rows = rows = order_rows(parts, ranks, self._multiple(), filler)
        kinds = Counter(row.kind for row in rows)
        metrics["metis/update/rollouts"] = kinds["rollout"]
        metrics["metis/update/judgments"] = kinds["judgment"]
        metrics["metis/update/padding"] = kinds["padding"]
        lengths.check_lengths(rows, lengths.in_a_pass(self.config))
        return put_rows([row for row in rows if not row.update_only], PARTITION)

    @contextmanager
    def joined(self, batch: KVBatchMeta) -> Iterator[KVBatchMeta]:
        """The batch together with the update-only rows, in order."""
        update_only = [row for row in self.rows if row.update_only]
        if not update_only:
            yield batch
            return
        blank = [name for name in COMPUTED if name in (batch.fields or ())]
        put_rows(update_only, PARTITION, blank)
        tags = dict(zip(batch.keys, batch.tags, strict=True))
        tags |= {row.key: row.tag for row in update_only}
        keys = [row.key for row in self.rows]
        fields = [*update_only[0].fields, *blank]
        yield KVBatchMeta(keys, [tags[key] for key in keys], PARTITION, fields, batch.extra_info)
        transfer_queue.kv_clear(keys=[row.key for row in update_only], partition_id=PARTITION)

    def _require_packing(self, parts: Sequence[Sequence[UpdateRow]]) -> None:
        """Check packing again, for choices that the curriculum did not declare."""
        if any(row.several for part in parts for row in part):
            model = self.config.actor_rollout_ref.model
            checks.require_packing(model, self.folder or model.path)

    def _require_single_outputs(self, parts: Sequence[Sequence[UpdateRow]]) -> None:
        """Only verl's GRPO estimator uses one output per rollout; others would count all."""
        estimator = str(self.config.algorithm.adv_estimator)
        if estimator != "grpo" and any(row.index > 0 for part in parts for row in part):
            raise MetisError(
                f"algorithm.adv_estimator = {estimator!r}: a rollout has several outputs, which "
                "verl would treat as separate rollouts; use grpo"
            )

    def _passes_before(self) -> int:
        """Forward passes before the update: old and reference log-probabilities."""
        correction = self.config.algorithm.get("rollout_correction", None) or {}
        old = not correction.get("bypass_mode", False)
        return int(old) + int(need_reference_policy(self.config))

    def _multiple(self) -> int:
        """The rows per rank must be a multiple of this (1 with dynamic micro-batches)."""
        settings = self.config.actor_rollout_ref
        if settings.actor.use_dynamic_bsz:
            return 1
        sizes = [
            settings.actor.ppo_micro_batch_size_per_gpu,
            settings.rollout.log_prob_micro_batch_size_per_gpu,
        ]
        if need_reference_policy(self.config):
            sizes.append(settings.ref.log_prob_micro_batch_size_per_gpu)
        return math.lcm(*sizes)

    def instructions(self, rows: int) -> dict[str, Any]:
        """verl's settings for the update; denominators are in the rows."""
        actor = self.config.actor_rollout_ref.actor
        return {
            "calculate_entropy": actor.calculate_entropy or actor.entropy_coeff != 0.0,
            "distillation_use_topk": any(row.scored for row in self.rows),
            "distillation_only": False,
            "global_batch_size": rows,
            "num_mini_batch": self.count,
            "epochs": actor.ppo_epochs,
            "seed": actor.data_loader_seed,
            "dataloader_kwargs": {"shuffle": False},
            "temperature": self.config.actor_rollout_ref.rollout.temperature,
        }

    def watch(self, norms: Any, metrics: dict[str, Any]) -> None:
        """verl skips non-finite updates; stop the run if that persists."""
        skipped = int(np.sum(~np.isfinite(norms)))
        metrics["metis/update/non_finite"] = skipped
        self.non_finite = self.non_finite + 1 if skipped else 0
        if self.non_finite >= NON_FINITE_LIMIT:
            raise MetisError(
                f"actor_rollout_ref.actor.optim.lr = {self.config.actor_rollout_ref.actor.optim.lr}"
                f": the gradient was not finite in {NON_FINITE_LIMIT} steps in a row; start a new "
                "run with a lower one"
            )
