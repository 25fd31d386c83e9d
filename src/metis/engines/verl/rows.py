"""A batch as rows of verl's update: mini-batches of prompts, spread over the data-parallel ranks.

verl cuts the rows of each rank into mini-batches in their order. So the order is made here: every
mini-batch has the same number of rows on every rank, its judgments beside its rollouts, and rows
that count for nothing where it would not come out even.
"""

import math
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import transfer_queue
from transfer_queue import KVBatchMeta
from verl.utils.seqlen_balancing import calculate_workload, get_seqlen_balanced_partitions
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from metis.core import Batch, Chat, Continuation, Group, Judgment, Trajectory
from metis.engines.dealing import Share, deal
from metis.engines.verl.loss import JudgeColumn

Encode = Callable[[Chat, str], tuple[list[int], list[int]]]
"""A chat and a reply to it -> the tokens of both."""


@dataclass
class Row:
    """One sequence of the update. `uid`, `session` and `index` are verl's names for the group, the
    rollout and the output of the rollout."""

    trajectory: Trajectory
    uid: str = field(default_factory=lambda: uuid.uuid4().hex)
    session: int = 0
    index: int = 0
    reward: float = 0.0
    judge: JudgeColumn = field(default_factory=JudgeColumn)
    kind: str = "rollout"
    ground_truth: Any = None

    @property
    def key(self) -> str:
        return f"{self.uid}_{self.session}_{self.index}"

    @property
    def tag(self) -> dict[str, Any]:
        """What verl's trainer reads of a row without fetching it."""
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
        scores = torch.zeros(len(written), dtype=torch.float32)
        scores[-1] = self.reward
        return {
            "uid": self.uid,
            "prompts": tokens[:cut],
            "responses": tokens[cut:],
            "input_ids": tokens,
            "position_ids": torch.arange(len(tokens)),
            "response_mask": written if self.kind == "rollout" else nothing,
            "loss_mask": written if self.kind == "rollout" else nothing,
            "judge_mask": written if self.kind == "judgment" else nothing,
            "judge": torch.tensor(self.judge, dtype=torch.float32),
            "rm_scores": scores,
            "rollout_log_probs": torch.from_numpy(trajectory.logprobs[cut:].astype(np.float32)),
            "num_turns": 2 * int(np.sum(np.diff(trajectory.loss_mask.astype(np.int8)) == 1)),
            "reward_model": {"ground_truth": self.ground_truth},
        }


def _first_written(trajectory: Trajectory) -> int:
    """Where the policy's part begins; a sequence has at least one token before it."""
    return max(1, int(np.argmax(trajectory.loss_mask)))


def minibatches(
    batch: Batch, size: int, encode: Encode, ground_truth: Callable[[str], Any]
) -> list[list[Row]]:
    """Cut a batch by prompts, its judgments dealt with them. A single rollout has no advantage.

    verl's step needs a rollout: a batch that has no row of one is no update.
    """
    parts = [_share_rows(share, encode, ground_truth) for share in deal(batch, size)]
    if not any(row.kind == "rollout" for rows in parts for row in rows):
        return []
    return [rows for rows in parts if rows]


def _share_rows(share: Share, encode: Encode, ground_truth: Callable[[str], Any]) -> list[Row]:
    """The rows of a mini-batch. Where every rollout failed, the mean over them is of nothing."""
    rollouts = float(max(1, sum(len(group.rewards) for group in share.groups)))
    rows: list[Row] = []
    for group in share.groups:
        column = JudgeColumn(rollouts=rollouts)
        rows += _rollout_rows(group, column, ground_truth(group.prompt.id))
    for judgments in share.judgments:
        for judgment in judgments:
            coefficient = judgment.weight / len(share.judgments)
            rows += _judgment_rows(judgment, coefficient, rollouts, encode)
    return rows


def _rollout_rows(group: Group, column: JudgeColumn, ground_truth: Any) -> list[Row]:
    uid = uuid.uuid4().hex
    return [
        Row(output, uid, session, index, reward, column, ground_truth=ground_truth)
        for session, (reward, last) in enumerate(
            zip(group.rewards, group.trajectories, strict=True)
        )
        for index, output in enumerate((*last.earlier, last))
        if len(group.rewards) > 1
    ]


def _judgment_rows(
    judgment: Judgment, coefficient: float, rollouts: float, encode: Encode
) -> list[Row]:
    trajectory = judgment.trajectory
    whole = isinstance(trajectory, Continuation)
    if isinstance(trajectory, Continuation):
        context, reply = encode(trajectory.chat, trajectory.text)
        trajectory = sequence(context, reply, trajectory.logprob)
    if not trajectory.loss_mask.any() or not judgment.advantage:
        return []
    column = JudgeColumn(judgment.advantage, coefficient, judgment.clip, whole, rollouts)
    return [Row(trajectory, judge=column, kind="judgment")]


def judged(parts: Sequence[Sequence[Row]]) -> float:
    """The judge's share of the tokens of an update."""
    rows = [row for part in parts for row in part]
    tokens = [len(row.trajectory.tokens) for row in rows]
    whole = sum(tokens)
    ours = sum(size for size, row in zip(tokens, rows, strict=True) if row.kind == "judgment")
    return ours / whole if whole else 0.0


def sequence(context: Sequence[int], reply: Sequence[int], logprob: float = 0.0) -> Trajectory:
    """Tokens to be read, and tokens that stand for an answer to them.

    Of a whole reply only one log-probability is known: its first token has it.
    """
    size = len(context) + len(reply)
    mask = np.arange(size) >= len(context)
    logprobs = np.where(np.arange(size) == len(context), logprob, 0.0).astype(np.float32)
    return Trajectory(np.array([*context, *reply], dtype=np.int64), mask, logprobs, policy=0)


def lay_out(parts: Sequence[Sequence[Row]], ranks: int, multiple: int, filler: int) -> list[Row]:
    """The rows in the order in which verl will cut them: by rank, then by mini-batch.

    Every mini-batch is filled up to the same multiple of `ranks * multiple`; ranks get about the
    same work. `filler` is the token that such rows are made of.
    """
    step = ranks * multiple
    size = step * math.ceil(max(len(part) for part in parts) / step)
    ordered: list[list[Row]] = [[] for _ in range(ranks)]
    for part in parts:
        rows = [*part, *(_padding(part[0], filler) for _ in range(size - len(part)))]
        lengths = torch.tensor([len(row.trajectory.tokens) for row in rows])
        shares = get_seqlen_balanced_partitions(
            calculate_workload(lengths), k_partitions=ranks, equal_size=True
        )
        for mine, share in zip(ordered, shares, strict=True):
            mine += [rows[i] for i in sorted(share)]
    return [row for mine in ordered for row in mine]


def _padding(like: Row, token: int) -> Row:
    column = JudgeColumn(rollouts=like.judge.rollouts)
    return Row(sequence([token], [token]), judge=column, kind="padding")


def put(rows: Sequence[Row], partition: str) -> KVBatchMeta:
    """Hand rows to verl's workers, under a name that keeps them apart from others."""
    return transfer_queue.kv_batch_put(
        keys=[row.key for row in rows],
        partition_id=partition,
        fields=list_of_dict_to_tensordict([row.fields for row in rows]),
        tags=[row.tag for row in rows],
    )


def ranks(workers: Any, mesh: str) -> int:
    """Over how many data-parallel ranks verl spreads the rows for these workers."""
    known = workers._dispatch_info
    if mesh not in known:
        known[mesh] = workers._query_dispatch_info(mesh)
    return int(max(known[mesh])) + 1


def keep_own(batch: KVBatchMeta, partition: str, policy: int) -> None:
    """Rollouts of an earlier policy are clipped against the policy that wrote them."""
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
