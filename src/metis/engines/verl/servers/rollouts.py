"""Rollouts on verl's agent loops: submit, wait, and read them as groups.

The agent loops write each rollout to the TransferQueue under `{uid}_{rollout}_{output}`, and the
status of each prompt under `{uid}`.
"""

import math
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import transfer_queue

from metis.core import (
    Chat,
    Counts,
    Group,
    Message,
    Prompt,
    Trajectory,
    Transcript,
    each_count,
)
from metis.core.values import Report
from metis.engines.tokens.packing import prefilled
from metis.engines.verl.prompts import PromptData, heldout_prompt
from metis.engines.verl.servers.liveness import LOOP, Liveness, asking
from metis.engines.verl.servers.said import (
    FAILURE,
    LOST,
    REPORTED,
    TRANSCRIPT,
    Decode,
    decoded,
    reward_info,
    transcript,
)
from metis.errors import MetisError
from metis.tasks.outcome import reported

PARTITION, VALIDATION = "train", "val"
ENDED = ("finished", "failure")
COLUMNS = ["prompts", "responses", "response_mask", "rollout_log_probs", "rm_scores"]
EXTRA = "extra_fields"
"""The column of non-tensors, with the values that the reward function reports."""
ROW = ["extra_info", "data_source", "raw_prompt", "reward_model"]
"""Columns of the data set that are in the queue."""
KNOWN = ("score", "acc", FAILURE)
"""Fields of a reward that are not reported values."""
POLL = 0.1
"""Seconds between polls of the queue."""


class Output(NamedTuple):
    """One output of an agent loop; the last one of a rollout has its reward."""

    trajectory: Trajectory
    reward: float
    cut_off: bool
    report: Report
    turns: list[Message]
    extra: Mapping[str, Any]


Outputs = Mapping[int, Sequence[Output]]
"""Outputs in order, by rollout."""


class Tested(NamedTuple):
    """The answers to a held-out prompt; `uid` is verl's id of it in this validation."""

    uid: str
    prompt: Prompt
    reference: str
    said: list[Transcript]


class Rollouts:
    """Rolls out prompts on verl's agent loops; `limit` is the maximum response length."""

    def __init__(
        self,
        data: PromptData,
        submit: Callable[[Any], object],
        liveness: Liveness,
        limit: int,
        decode: Decode,
    ) -> None:
        self.data, self.submit, self.liveness, self.limit = data, submit, liveness, limit
        self.decode = decode
        self.processed = 0

    def play(self, prompts: Sequence[Prompt], n: Counts, version: int) -> list[Group]:
        """Roll out n responses per prompt, or a number for each; without a reward they failed."""
        uids, counts = [uuid.uuid4().hex for _ in prompts], each_count(n, prompts)
        with asking(LOOP):
            self.submit(self.data.batch(prompts, uids, counts, version + 1))
        tags = self._wait(uids)
        try:
            by_prompt = self._read([key for key in tags if "_" in key], tags, version)
        finally:
            transfer_queue.kv_clear(keys=list(tags), partition_id=PARTITION)
        groups = [
            _group(prompt, self.data.chat(prompt), by_prompt.get(uid, {}), count)
            for prompt, uid, count in zip(prompts, uids, counts, strict=True)
        ]
        if any(group.failed for group in groups):
            self.liveness.check_now()
        if groups and not any(group.rewards for group in groups):
            why = next(said.failure for group in groups for said in group.transcripts)
            raise MetisError(
                f"all {sum(counts)} rollouts of step {version + 1} failed, the first: {why}; "
                "the last checkpoint is complete, and the same command resumes from it"
            )
        return groups

    def _wait(self, uids: Sequence[str]) -> dict[str, Any]:
        """Wait until every prompt is done; returns the tags of prompts and rollouts."""
        asked = set(uids)
        while True:
            listed = (transfer_queue.kv_list(PARTITION) or {}).get(PARTITION, {})
            if all(listed.get(uid, {}).get("status") in ENDED for uid in uids):
                return {key: tag for key, tag in listed.items() if key.split("_")[0] in asked}
            self.liveness.check()
            time.sleep(POLL)

    def _read(
        self, keys: Sequence[str], tags: Mapping[str, Any], version: int
    ) -> dict[str, dict[int, list[Output]]]:
        """Outputs in order, by prompt and rollout."""
        by_prompt: dict[str, dict[int, list[Output]]] = {}
        if not keys:
            return by_prompt
        keys = sorted(keys, key=lambda key: (key.split("_")[0], *map(int, key.split("_")[1:])))
        wanted = [*COLUMNS, EXTRA]
        data = transfer_queue.kv_batch_get(keys=keys, partition_id=PARTITION, select_fields=wanted)
        columns = [list(data[name].unbind(0)) for name in COLUMNS]
        for key, extra, *row in zip(keys, data.get(EXTRA).tolist(), *columns, strict=True):
            written_by = tags[key].get("max_global_steps")
            if written_by != version or tags[key].get("min_global_steps") != version:
                raise RuntimeError(f"a rollout was written by step {written_by}, not {version}")
            uid, session, _ = key.split("_")
            prompt, response, mask, logprobs, scores = (values.numpy() for values in row)
            trajectory = _trajectory(prompt, response, mask, logprobs, version)
            outputs = by_prompt.setdefault(uid, {}).setdefault(int(session), [])
            cut_off = len(response) >= self.limit
            reward, turns = float(scores.sum()), self._turns(extra, response, mask)
            outputs.append(Output(trajectory, reward, cut_off, _report(extra), turns, extra))
        self.processed += _processed(by_prompt)
        return by_prompt

    def tested(self, keys: Sequence[str]) -> list[Tested]:
        """The held-out prompts of a validation with their answers, by prompt id."""
        finals = {key.rsplit("_", 1)[0]: key for key in sorted(keys, key=_place)}
        by_uid: dict[str, Tested] = {}
        if not finals:
            return []
        tensors = ["responses", "response_mask", "rm_scores"]
        data = transfer_queue.kv_batch_get(
            keys=list(finals.values()),
            partition_id=VALIDATION,
            select_fields=[*tensors, EXTRA, *ROW],
        )
        columns = [list(data[name].unbind(0)) for name in tensors]
        others = [data.get(name).tolist() for name in (EXTRA, *ROW)]
        for session, extra, *row in zip(finals, *others, *columns, strict=True):
            about = dict(zip(ROW, row, strict=False))
            response, mask, scores = (values.numpy() for values in row[len(ROW) :])
            asked: Chat = list(about["raw_prompt"])
            turns, cut_off = self._turns(extra, response, mask), len(response) >= self.limit
            told = transcript(
                extra, asked, turns, float(scores.sum()), _report(extra), int(mask.sum()), cut_off
            )
            uid = session.rsplit("_", 1)[0]
            reference = str((about["reward_model"] or {}).get("ground_truth") or "")
            group = Tested(uid, heldout_prompt(about), reference, [])
            by_uid.setdefault(uid, group).said.append(told)
        return sorted(by_uid.values(), key=lambda each: each.prompt.id)

    def _turns(self, extra: Mapping[str, Any], response: Any, mask: Any) -> list[Message]:
        """The decoded response, if the agent loop passed no messages."""
        handed = TRANSCRIPT in extra
        return [] if handed else decoded(response.tolist(), mask.tolist(), self.decode)


def _processed(by_prompt: Mapping[str, Outputs]) -> int:
    """Total tokens of all turns, counted as on the local engine: the context of each turn, with
    prefixes that a prompt's rollouts share counted once, and generated tokens."""
    first: dict[tuple[str, bytes], list[int]] = {}
    later: dict[int, list[list[int]]] = {}
    written = 0
    for uid, rollouts in by_prompt.items():
        for output in (output for outputs in rollouts.values() for output in outputs):
            tokens, own = output.trajectory.tokens, output.trajectory.loss_mask
            written += int(own.sum())
            starts = np.flatnonzero(np.diff(own.astype(np.int8), prepend=0) == 1)
            for turn, start in enumerate(starts):
                asked = tokens[:start].tolist()
                if turn == 0:
                    first[uid, tokens[:start].tobytes()] = asked
                else:
                    later.setdefault(turn, []).append(asked)
    return written + sum(map(prefilled, [[*first.values()], *later.values()]))


def _place(key: str) -> tuple[str, int, int]:
    uid, session, output = key.rsplit("_", 2)
    return uid, int(session), int(output)


def _report(extra: Mapping[str, Any]) -> Report:
    """The values that the reward function reports besides the score."""
    said = reward_info(extra)
    return reported({name.removeprefix(REPORTED): said[name] for name in said if name not in KNOWN})


def _trajectory(prompt: Any, response: Any, mask: Any, logprobs: Any, version: int) -> Trajectory:
    written = np.concatenate([np.zeros(len(prompt)), mask]).astype(np.bool_)
    values = np.concatenate([np.zeros(len(prompt)), logprobs]).astype(np.float32)
    tokens = np.concatenate([prompt, response]).astype(np.int64)
    return Trajectory(tokens, written, np.where(written, values, 0).astype(np.float32), version)


def _group(prompt: Prompt, asked: Chat, rollouts: Outputs, n: int) -> Group:
    """The group of a prompt; rollouts with a non-finite reward count as failed."""
    rewards, trajectories, reports, cut_off, lost = [], [], [], 0, 0
    said = {number: Transcript(asked, (), failure=LOST) for number in range(n)}
    for number, outputs in sorted(rollouts.items()):
        *earlier, (last, reward, cut, report, turns, extra) = outputs
        whole = [*(turn for output in earlier for turn in output.turns), *turns]
        own = sum(int(output.trajectory.loss_mask.sum()) for output in outputs)
        said[number] = transcript(extra, asked, whole, reward, report, own, cut)
        cut_off += cut
        if not math.isfinite(reward):
            lost += own
            continue
        before = tuple(output.trajectory for output in earlier)
        rewards.append(reward)
        reports.append(report)
        trajectories.append(
            Trajectory(last.tokens, last.loss_mask, last.logprobs, last.policy, before)
        )
    failed = n - len(rewards)
    return Group(
        *(prompt, tuple(rewards), tuple(trajectories), failed),
        failed_tokens=lost,
        cut_off=cut_off,
        reports=tuple(reports),
        transcripts=tuple(said.values()),
    )
