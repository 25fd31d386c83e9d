"""Turns a batch into rows of verl's update: mini-batches, ordered for the data-parallel ranks.

verl splits each rank's rows into mini-batches in order. So rows are ordered here such that every
mini-batch has the same number of rows on every rank, with judgments next to their rollouts, and
padding rows where needed.
"""

import math
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
import transfer_queue
from transfer_queue import KVBatchMeta
from verl.utils.seqlen_balancing import calculate_workload, get_seqlen_balanced_partitions
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from metis.core import Batch, Group, Trajectory
from metis.engines.objective.judgments import JudgmentRows, judgment_rows
from metis.engines.objective.minibatches import MinibatchShare, split_minibatches
from metis.engines.tokens.encoding import Encoder
from metis.engines.verl.workers.loss import JudgeColumn, columns
from metis.engines.verl.workers.scored import PackedChoices, pack_choices


class ValueTarget(NamedTuple):
    """A value model's target for a row, and the row's weight in the loss."""

    value: Any = 0.0
    weight: Any = 0.0

    @classmethod
    def of(cls, data: Any) -> "ValueTarget":
        """The targets of a micro-batch."""
        return cls(*columns(data["target"], len(cls._fields)))


@dataclass
class UpdateRow:
    """One sequence of the update; `uid`, `session`, `index` are verl's group, rollout, output."""

    trajectory: Trajectory
    uid: str = field(default_factory=lambda: uuid.uuid4().hex)
    session: int = 0
    index: int = 0
    reward: float = 0.0
    judge: JudgeColumn = field(default_factory=JudgeColumn)
    target: ValueTarget = field(default_factory=ValueTarget)
    kind: str = "rollout"
    ground_truth: Any = None
    scored: PackedChoices | None = None
    update_only: bool = False
    """Not in the passes before the update (old and reference log-probabilities)."""

    @property
    def key(self) -> str:
        return f"{self.uid}_{self.session}_{self.index}"

    @property
    def several(self) -> bool:
        """True for a scored judgment that packs more than one sequence."""
        return self.scored is not None and int(np.sum(self.scored.positions == 0)) > 1

    @property
    def tag(self) -> dict[str, Any]:
        """The row's TransferQueue tags, which verl's trainer reads."""
        prompt = _first_written(self.trajectory)
        version = self.trajectory.policy
        return {
            "status": "success",
            "prompt_len": prompt,
            "response_len": len(self.trajectory.tokens) - prompt,
            "seq_len": len(self.trajectory.tokens),
            "global_steps": version,
            "min_global_steps": version,
            "max_global_steps": version,
            "is_padding": self.kind != "rollout",
            "kind": self.kind,
        }

    @property
    def fields(self) -> dict[str, Any]:
        """The columns that verl's workers read."""
        trajectory, cut = self.trajectory, _first_written(self.trajectory)
        tokens = torch.from_numpy(trajectory.tokens.astype(np.int64))
        written = torch.from_numpy(trajectory.loss_mask[cut:].astype(np.int64))
        nothing = torch.zeros_like(written)
        scored = self.scored
        positions = np.arange(len(tokens)) if scored is None else scored.positions
        scores = torch.zeros(len(written), dtype=torch.float32)
        scores[-1] = self.reward
        return {
            "uid": self.uid,
            "prompts": tokens[:cut],
            "responses": tokens[cut:],
            "input_ids": tokens,
            "position_ids": torch.from_numpy(positions),
            "response_mask": written if self.kind == "rollout" else nothing,
            "loss_mask": written if self.kind == "rollout" else nothing,
            "judge_mask": written if self.kind == "judgment" and not scored else nothing,
            "judge": torch.tensor(self.judge, dtype=torch.float32),
            "target": torch.tensor(self.target, dtype=torch.float32),
            "choices": scored.choices.packed() if scored else b"",
            "rm_scores": scores,
            "rollout_log_probs": torch.from_numpy(trajectory.logprobs[cut:].astype(np.float32)),
            "num_turns": 2 * int(np.sum(np.diff(trajectory.loss_mask.astype(np.int8)) == 1)),
            "reward_model": {"ground_truth": self.ground_truth},
        }


def _first_written(trajectory: Trajectory) -> int:
    """Index of the policy's first token, at least 1."""
    return max(1, int(np.argmax(trajectory.loss_mask)))


def minibatch_rows(
    batch: Batch, size: int, encoder: Encoder, ground_truth: Callable[[str], Any]
) -> list[list[UpdateRow]]:
    """Split a batch into mini-batches by prompts; groups of one rollout have no advantage.

    verl's step needs rollouts: without any there is no update.
    """
    shares = split_minibatches(batch, size)
    judged = iter(judgment_rows(encoder, [rows for share in shares for rows in share.judgments]))
    parts = [_share_rows(share, judged, ground_truth) for share in shares]
    if not any(row.kind == "rollout" for rows in parts for row in rows):
        return []
    return [rows for rows in parts if rows]


def _share_rows(
    share: MinibatchShare, judged: Iterator[JudgmentRows], ground_truth: Callable[[str], Any]
) -> list[UpdateRow]:
    """The rows of a mini-batch; the denominator is at least 1 if all rollouts failed."""
    rollouts = float(max(1, share.rollouts))
    rows: list[UpdateRow] = []
    for group in share.groups:
        column = JudgeColumn(rollouts=rollouts)
        rows += _rollout_rows(group, column, ground_truth(group.prompt.id))
    column = JudgeColumn(coefficient=1 / max(1, len(share.judgments)), rollouts=rollouts)
    for _ in share.judgments:
        rows += _judgment_rows(next(judged), column)
    return rows


def _rollout_rows(group: Group, column: JudgeColumn, ground_truth: Any) -> list[UpdateRow]:
    uid = uuid.uuid4().hex
    return [
        UpdateRow(output, uid, session, index, reward, column, ground_truth=ground_truth)
        for session, (reward, last) in enumerate(
            zip(group.rewards, group.trajectories, strict=True)
        )
        for index, output in enumerate((*last.earlier, last))
        if len(group.rewards) > 1
    ]


def _judgment_rows(judgment: JudgmentRows, column: JudgeColumn) -> Iterator[UpdateRow]:
    """One row per sampled reply, or one row for all scored choices."""
    for reply, trajectory in judgment.replies:
        coefficient = reply.weight * column.coefficient
        mine = column._replace(advantage=reply.advantage, coefficient=coefficient, clip=reply.clip)
        yield UpdateRow(trajectory, judge=mine, kind="judgment")
    if judgment.scored is not None:
        packed = pack_choices(*judgment.scored)
        trajectory = read_then_answer(packed.tokens[:-1].tolist(), packed.tokens[-1:].tolist())
        yield UpdateRow(trajectory, judge=column, kind="judgment", scored=packed, update_only=True)


def judge_share(parts: Sequence[Sequence[UpdateRow]], forward: int = 0) -> float:
    """The judge's share of an update's compute, by tokens.

    An update counts as three forward passes; `forward` passes come before it, without update-only
    rows.
    """
    work, ours = 0, 0
    for row in (row for part in parts for row in part):
        passes = 3 if row.update_only else 3 + forward
        work += passes * len(row.trajectory.tokens)
        ours += passes * len(row.trajectory.tokens) if row.kind == "judgment" else 0
    return ours / work if work else 0.0


def read_then_answer(context: Sequence[int], reply: Sequence[int]) -> Trajectory:
    """A trajectory of context and reply, without log-probabilities."""
    size = len(context) + len(reply)
    mask = np.arange(size) >= len(context)
    tokens = np.array([*context, *reply], dtype=np.int64)
    return Trajectory(tokens, mask, np.zeros(size, dtype=np.float32), policy=0)


def order_rows(
    parts: Sequence[Sequence[UpdateRow]], ranks: int, multiple: int, filler: int
) -> list[UpdateRow]:
    """Order the rows as verl splits them: by rank, then by mini-batch.

    Every mini-batch is padded to the same multiple of `ranks * multiple` rows, update-only rows
    separately; the work is balanced over ranks. `filler` is the token of padding rows.
    """
    ordered: list[list[UpdateRow]] = [[] for _ in range(ranks)]
    step = ranks * multiple
    piles = {late: [[r for r in part if r.update_only is late] for part in parts] for late in LATE}
    sizes = {late: step * math.ceil(max(map(len, piles[late])) / step) for late in LATE}
    for i, part in enumerate(parts):
        for late in LATE:
            rows = piles[late][i]
            fill = [_padding(part[0], filler, late) for _ in range(sizes[late] - len(rows))]
            for mine, share in zip(ordered, _balanced([*rows, *fill], ranks), strict=True):
                mine += share
    return [row for mine in ordered for row in mine]


LATE = (False, True)
"""Values of `update_only`: rows of all passes, then update-only rows."""


def _balanced(rows: Sequence[UpdateRow], ranks: int) -> list[list[UpdateRow]]:
    """Split rows over ranks: equal numbers, balanced work."""
    if not rows:
        return [[] for _ in range(ranks)]
    lengths = torch.tensor([len(row.trajectory.tokens) for row in rows])
    shares = get_seqlen_balanced_partitions(
        calculate_workload(lengths), k_partitions=ranks, equal_size=True
    )
    return [[rows[i] for i in sorted(share)] for share in shares]


def _padding(like: UpdateRow, token: int, update_only: bool) -> UpdateRow:
    column = JudgeColumn(rollouts=like.judge.rollouts)
    return UpdateRow(
        read_then_answer([token], [token]), judge=column, kind="padding", update_only=update_only
    )


def put_rows(rows: Sequence[UpdateRow], partition: str, blank: Sequence[str] = ()) -> KVBatchMeta:
    """Put rows into a partition of the TransferQueue.

    `blank` are verl's per-token columns that are filled with 0.
    """
    fields = [
        row.fields | dict.fromkeys(blank, torch.zeros(row.tag["response_len"])) for row in rows
    ]
    return transfer_queue.kv_batch_put(
        keys=[row.key for row in rows],
        partition_id=partition,
        fields=list_of_dict_to_tensordict(fields),
        tags=[row.tag for row in rows],
    )


def data_parallel_ranks(workers: Any, mesh: str) -> int:
    """The data-parallel size of these workers."""
    dispatch_info = workers._dispatch_info
    if mesh not in dispatch_info:
        dispatch_info[mesh] = workers._query_dispatch_info(mesh)
    return int(max(dispatch_info[mesh])) + 1


def keep_rollout_logprobs(batch: KVBatchMeta, partition: str, policy: int) -> None:
    """Use the sampling log-probabilities as old ones for rollouts of an earlier policy."""
    stale = [
        key
        for key, tag in zip(batch.keys, batch.tags, strict=True)
        if tag["kind"] == "rollout" and tag["max_global_steps"] < policy
    ]
    if stale:
        data = transfer_queue.kv_batch_get(
            keys=stale, partition_id=partition, select_fields=["rollout_log_probs"]
        )
        data["old_log_probs"] = data.pop("rollout_log_probs")
        transfer_queue.kv_batch_put(keys=stale, partition_id=partition, fields=data)
