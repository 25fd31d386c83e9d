"""Rollouts by verl's agent loops, with a queue and workers that are made up."""

import math
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import ray
import torch
from tensordict import NonTensorStack, TensorDict

from metis import MetisError, Prompt
from metis.engines.verl.servers import rollouts
from metis.engines.verl.servers.rollouts import COLUMNS, EXTRA, PARTITION, ROW, Rollouts
from metis.engines.verl.servers.said import decoded, failed, handed_on
from metis.engines.verl.trainer.trainer import PlannedBuffer

PROMPTS = [Prompt("data:1", "one"), Prompt("data:2", "two")]


class Queue:
    """A queue that agent loops fill when they are asked: `rewards` by prompt, None fails."""

    def __init__(self, rewards, version=4, slow=0):
        self.rewards, self.version, self.slow = rewards, version, slow
        self.tags, self.rows, self.cleared = {}, {}, []

    def submit(self, uids):
        for uid, rewards in zip(uids, self.rewards, strict=True):
            alive = [reward for reward in rewards if reward is not None]
            self.tags[uid] = {"status": "finished" if alive else "failure"}
            for session, reward in enumerate(rewards):
                if reward is not None:
                    self._write(f"{uid}_{session}_0", reward)

    def _write(self, key, reward):
        version = {"min_global_steps": self.version, "max_global_steps": self.version}
        self.tags[key] = {"status": "success", **version}
        scores = torch.tensor([0.0, reward])
        pair = torch.tensor([7, 8])
        said = {"score": reward, "acc": 1.0, "reward/length": 2, "pred": "x"}
        self.rows[key] = {
            **dict(zip(COLUMNS, (pair, pair + 2, torch.ones(2)), strict=False)),
            "rollout_log_probs": torch.tensor([-1.0, -2.0]),
            "rm_scores": scores,
            EXTRA: {"reward_extra_info": said | {"all": [1]}},
            "extra_info": {"index": 3, "category": None},
            "data_source": "sums",
            "raw_prompt": [{"role": "user", "content": "one"}],
            "reward_model": {"ground_truth": 4},
        }

    def kv_list(self, partition):
        assert partition == PARTITION
        if self.slow:
            self.slow -= 1
            return {PARTITION: {uid: {"status": "running"} for uid in self.tags if "_" not in uid}}
        return {PARTITION: dict(self.tags, other_0_0={"status": "success"})}

    def kv_batch_get(self, keys, partition_id, select_fields):
        rows = [self.rows[key] for key in keys]
        columns = {name: [row[name] for row in rows] for name in select_fields}
        for name, values in columns.items():
            plain = name in (EXTRA, *ROW)
            columns[name] = NonTensorStack(*values) if plain else torch.stack(values)
        return TensorDict(columns, batch_size=len(keys))

    def kv_clear(self, keys, partition_id):
        self.cleared += keys


@pytest.fixture
def play(monkeypatch):
    monkeypatch.setattr(rollouts, "POLL", 0.0)

    def play(queue, liveness=None, limit=3, n=3):
        monkeypatch.setattr(rollouts, "transfer_queue", queue)
        return playing(queue, liveness, limit).play(PROMPTS, n, version=4)

    return play


def playing(queue, liveness=None, limit=3):
    """Rollouts of these prompts; a token is decoded as its number."""
    data = SimpleNamespace(
        batch=lambda prompts, uids, n, step: uids,
        chat=lambda prompt: [{"role": "user", "content": prompt.text}],
    )
    return Rollouts(data, queue.submit, liveness or Mock(), limit, spelled)


def spelled(tokens):
    return " ".join(map(str, tokens))


def test_groups_are_what_the_agent_loops_wrote(play):
    queue = Queue([(1.0, None, 0.0), (0.5, 0.5, 0.5)], slow=3)
    first, second = play(queue)
    assert (first.prompt, first.rewards, first.failed) == (PROMPTS[0], (1.0, 0.0), 1)
    assert (second.rewards, second.failed) == ((0.5,) * 3, 0)
    (one, _) = first.trajectories
    assert one.tokens.tolist() == [7, 8, 9, 10] and one.policy == 4
    assert one.loss_mask.tolist() == [False, False, True, True]
    assert np.array_equal(one.logprobs, np.array([0, 0, -1, -2], np.float32))
    assert sorted(queue.cleared) == sorted(queue.tags), "nothing of it is left, nothing else went"


def test_total_tokens_are_a_prompt_once_and_all_answers(monkeypatch):
    queue = Queue([(1.0, None, 0.0), (0.5, 0.5, 0.5)])
    monkeypatch.setattr(rollouts, "transfer_queue", queue)
    counted = playing(queue)
    counted.play(PROMPTS, 3, version=4)
    assert counted.processed == 2 + 5 * 2, "both prompts are the same two tokens"


def test_groups_may_be_of_different_sizes(play):
    first, second = play(Queue([(1.0, None, 0.0, 1.0, 0.0), (0.5, 1.0)]), n=[5, 2])
    assert (first.rewards, first.failed) == ((1.0, 0.0, 1.0, 0.0), 1)
    assert (second.rewards, second.failed) == ((0.5, 1.0), 0)
    assert [len(first.transcripts), len(second.transcripts)] == [5, 2]


def test_what_a_reward_function_said_beside_its_score_is_reported(play):
    first, _ = play(Queue([(1.0, None, 0.0), (0.5, 0.5, 0.5)]))
    assert first.reports == ({"length": 2.0, "pred": "x"},) * 2


def test_what_was_said_is_decoded_where_the_agent_loop_hands_nothing_on(play):
    queue = Queue([(1.0, None, math.nan), (0.5, 0.5, 0.5)])
    group, _ = play(queue)
    said, lost, odd = group.transcripts
    assert said.asked == lost.asked == [{"role": "user", "content": "one"}]
    assert said.said == [{"role": "assistant", "content": "9 10"}] == odd.said
    assert (said.reward, said.tokens, said.truncated, said.failure) == (1.0, 2, False, None)
    assert said.report == {"length": 2.0, "pred": "x"}
    assert (lost.reward, odd.reward, group.failed) == (None, None, 2)
    assert lost.said == () and "log" in lost.failure and odd.failure == "its reward is nan"


def test_what_was_said_is_as_the_agent_loop_hands_it_on(play, monkeypatch):
    chat = [{"role": "system", "content": "\ud800 Be brief."}, {"role": "user", "content": "one"}]
    turns = [{"role": "assistant", "content": "a"}, {"role": "tool", "content": "b"}]
    queue = Queue([(1.0,) * 3, (0.5,) * 3])
    write = queue._write

    def handing_on(key, reward):
        write(key, reward)
        queue.rows[key][EXTRA].update(handed_on(chat, turns))

    queue._write = handing_on
    first, _ = play(queue)
    assert first.transcripts[0].asked == chat and first.transcripts[0].said == turns


def test_what_a_tool_said_is_told_from_what_the_policy_said():
    turns = decoded([1, 2, 3, 4], [1, 0, 0, 1], spelled)
    assert [(turn["role"], turn["content"]) for turn in turns] == [
        *(("assistant", "1"), ("tool", "2 3"), ("assistant", "4"))
    ]


def test_a_rollout_that_failed_has_its_messages_its_reason_and_its_tokens(play):
    queue = Queue([(1.0, math.nan, 0.0), (0.5, 0.5, 0.5)])
    write = queue._write

    def failing(key, reward):
        write(key, reward)
        if math.isnan(reward):
            queue.rows[key][EXTRA] = {"reward_extra_info": failed(ValueError("no number"))}

    queue._write = failing
    group, _ = play(queue)
    assert (group.rewards, group.failed, group.failed_tokens) == ((1.0, 0.0), 1, 2)
    _, lost, _ = group.transcripts
    assert lost.said == [{"role": "assistant", "content": "9 10"}] and lost.reward is None
    assert (lost.failure, lost.tokens, lost.report) == ("ValueError: no number", 2, {})


@pytest.fixture
def tested(monkeypatch):
    """What is heard of a validation; `changed` are columns by key."""

    def tested(rewards, **changed):
        queue = Queue(rewards)
        queue.submit(["b", "a"])
        monkeypatch.setattr(rollouts, "transfer_queue", queue)
        for key, columns in changed.items():
            queue.rows[key] |= columns
        return playing(queue).tested(list(queue.rows))

    return tested


def test_what_was_said_in_a_validation_is_known_by_the_prompt_s_id(tested):
    named = {"extra_info": {"id": "mine:7", "index": 7, "category": "sums"}}
    first, second = tested([(1.0, 0.0), (0.5, None)], b_0_0=named, b_1_0=named)
    assert (first.uid, first.prompt.id, first.prompt.category) == ("b", "mine:7", "sums")
    assert (second.uid, second.prompt.id) == ("a", "sums:heldout:3")
    assert [each.reward for each in first.said] == [1.0, 0.0]
    assert first.said[0].asked == [{"role": "user", "content": "one"}]
    assert first.reference == second.reference == "4"
    assert [each.reward for each in second.said] == [0.5]


def test_a_held_out_prompt_without_id_and_index_is_named_by_its_messages(tested):
    chats = {name: [{"role": "user", "content": f"\ud800 {name}"}] for name in "ab"}
    rows = {f"{n}_0_0": {"extra_info": {}, "raw_prompt": chat} for n, chat in chats.items()}
    names = [each.prompt.id for each in tested([(1.0,), (0.5,)], **rows)]
    assert names == [each.prompt.id for each in tested([(0.0,), (0.0,)], **rows)]
    assert len(set(names)) == 2 and all(name.startswith("sums:heldout:") for name in names)


def test_a_validation_without_answers_has_nothing_to_hear(tested):
    assert tested([(None,), (None,)]) == []


def test_a_prompt_whose_rollouts_all_fail_is_an_empty_group(play):
    first, second = play(Queue([(None, None, None), (1.0, 0.0, 1.0)]))
    assert (first.rewards, first.failed, second.failed) == ((), 3, 0)


def test_a_step_whose_rollouts_all_fail_ends_the_run(play):
    queue = Queue([(None,) * 3, (None,) * 3])
    with pytest.raises(MetisError, match="all 6 rollouts of step 5 failed, the first: verl drop"):
        play(queue)
    assert sorted(queue.cleared) == sorted(queue.tags)


def test_rollouts_of_other_weights_are_an_error(play):
    queue = Queue([(1.0,) * 3, (0.0,) * 3], version=3)
    with pytest.raises(RuntimeError, match="written by step 3, not 4"):
        play(queue)
    assert sorted(queue.cleared) == sorted(queue.tags)


def test_workers_are_checked_while_waiting_and_at_once_after_failures(play):
    liveness = Mock()
    play(Queue([(1.0,) * 3, (0.0,) * 3], slow=2), liveness)
    assert (liveness.check.call_count, liveness.check_now.call_count) == (2, 0)
    play(Queue([(1.0,) * 3, (0.0, None, 0.0)]), liveness)
    assert (liveness.check.call_count, liveness.check_now.call_count) == (2, 1)


def test_a_worker_that_died_is_the_reason_where_all_rollouts_fail(play):
    liveness = Mock()
    liveness.check_now.side_effect = MetisError("a reward worker died")
    with pytest.raises(MetisError, match="a reward worker died"):
        play(Queue([(None,) * 3, (None,) * 3]), liveness)


def test_an_agent_loop_that_died_is_the_error(play):
    queue = Queue([(1.0,) * 3, (0.0,) * 3])
    queue.submit = Mock(side_effect=ray.exceptions.ActorDiedError)
    with pytest.raises(MetisError, match=r"an agent-loop worker died \(ActorDiedError\)"):
        play(queue)


def test_workers_are_checked_where_a_test_is_waited_for():
    buffer = PlannedBuffer.__new__(PlannedBuffer)
    buffer.poll_interval, buffer.liveness = 0.0, Mock()
    buffer._wait_for_next_poll("val", math.inf)
    assert buffer.liveness.check.call_count == 1


@pytest.mark.parametrize(("limit", "counts"), [(3, (0, 0)), (2, (2, 3))])
def test_responses_as_long_as_they_may_be_are_counted_as_cut_off(play, limit, counts):
    """Failed ones too, if there is a response."""
    groups = play(Queue([(1.0, None, math.nan), (0.5, 0.5, 0.5)]), limit=limit)
    assert tuple(group.cut_off for group in groups) == counts
