"""The rows of an update on their way to the workers: some before it, some for it alone."""

from dataclasses import replace

import numpy as np
import pytest
from omegaconf import OmegaConf, open_dict
from transfer_queue import KVBatchMeta
from transformers import LlamaConfig, Qwen3NextConfig

from composing import composed
from letters import Letters
from metis import Batch, Group, MetisError, Prompt
from metis.core import Continuation, Judgment, Trajectory
from metis.engines.verl.servers.rollouts import PARTITION
from metis.engines.verl.workers import rows, update
from metis.engines.verl.workers.update import Update

CHAT = [{"role": "user", "content": "???"}]


def trajectory():
    mask = np.arange(5) >= 3
    return Trajectory(np.arange(5), mask, np.zeros(5, np.float32), 0)


def batch(*texts):
    """Two groups of two; a sampled and a scored judgment of the first."""
    prompts = [Prompt(name, name) for name in "ab"]
    groups = [Group(prompt, (0.0, 1.0), (trajectory(), trajectory())) for prompt in prompts]
    judgments = [Judgment(prompts[0], trajectory(), 0.5)]
    judgments += [Judgment(prompts[0], Continuation(CHAT, text, -1.0), 0.5) for text in texts]
    return Batch(groups, judgments)


@pytest.fixture
def made(tmp_path):
    LlamaConfig().save_pretrained(tmp_path)
    config = composed([f"actor_rollout_ref.model.path={tmp_path}"])
    with open_dict(config):
        config.actor_rollout_ref.actor.ppo_mini_batch_size = 1
    return Update(config)


@pytest.fixture
def queue(monkeypatch):
    """The contents of the queue, by key."""
    there = {}

    def put(keys, partition_id, fields, tags):
        assert partition_id == PARTITION
        there.update(zip(keys, fields, strict=True))
        return KVBatchMeta(keys, tags, partition_id, list(fields.keys()))

    def clear(keys, partition_id):
        assert partition_id == PARTITION
        for key in keys:
            del there[key]

    monkeypatch.setattr(rows.transfer_queue, "kv_batch_put", put)
    monkeypatch.setattr(update.transfer_queue, "kv_clear", clear)
    return there


def test_scored_judgments_join_for_the_update_alone(made, queue):
    metrics = {}
    parts = made.cut(batch("1", "2"), Letters(), str, metrics)
    before = made.write(parts, 2, 7, metrics)
    assert metrics["metis/update/rollouts"] == 4 and metrics["metis/update/judgments"] == 2
    ordered = [row.key for row in made.rows]
    kept = [row.key for row in made.rows if not row.update_only]
    assert before.keys == kept == list(queue) and len(kept) < len(ordered)
    computed = KVBatchMeta(
        kept, before.tags, PARTITION, [*before.fields, "old_log_probs", "advantages", "returns"]
    )
    with made.joined(computed) as whole:
        assert whole.keys == ordered and set(queue) == set(ordered)
        assert {"old_log_probs", "advantages", "choices", "input_ids"} <= set(whole.fields)
        assert not {"returns", "ref_log_prob"} & set(whole.fields)
        assert made.instructions(len(whole))["distillation_use_topk"]
        [scored] = [row for row in made.rows if row.scored]
        assert queue[scored.key]["old_log_probs"].tolist() == [0.0], "as long as its answer"
        assert [tag["kind"] for tag in whole.tags] == [row.kind for row in made.rows]
    assert list(queue) == kept, "verl's metrics are of the others"


def test_without_scored_judgments_the_batch_is_as_it_was(made, queue):
    before = made.write(made.cut(batch(), Letters(), str, {}), 1, 7, {})
    with made.joined(before) as whole:
        assert whole is before
    assert not made.instructions(len(before))["distillation_use_topk"]


def test_values_of_several_tokens_need_packed_rows(made):
    made.config.actor_rollout_ref.model.use_remove_padding = False
    made.cut(batch("1", "2"), Letters(), str, {})
    with pytest.raises(MetisError, match=r"use_remove_padding = False: .*judge\.scale=passes"):
        made.cut(batch("01", "02", "11", "12"), Letters(), str, {})


def test_values_of_several_tokens_need_layers_that_look_at_positions(made, tmp_path):
    several = batch("01", "02", "11", "12")
    assert any(row.several for part in made.cut(several, Letters(), str, {}) for row in part)
    Qwen3NextConfig().save_pretrained(tmp_path)
    with pytest.raises(MetisError, match=r"linear_attention.*judge\.scale=passes"):
        made.cut(several, Letters(), str, {})


def test_rollouts_of_several_outputs_are_compared_by_grpo_alone(made):
    last = replace(trajectory(), earlier=(trajectory(),))
    several = Batch([Group(Prompt("a", "a"), (0.0, 1.0), (trajectory(), last))])
    [rows] = made.cut(several, Letters(), str, {})
    assert sorted(row.index for row in rows) == [0, 0, 1]
    made.config.algorithm.adv_estimator = "rloo"
    made.cut(batch(), Letters(), str, {})
    with pytest.raises(MetisError, match=r"adv_estimator = 'rloo': .* several outputs.*use grpo"):
        made.cut(several, Letters(), str, {})


def test_the_judge_s_share_counts_the_passes_before_the_update(made):
    made.cut(batch("1", "2"), Letters(), str, {})
    rollouts, reply, scored = 4 * 5, 5, 3
    work = 4 * (rollouts + reply) + 3 * scored
    assert made.judged == pytest.approx((4 * reply + 3 * scored) / work)
    OmegaConf.update(made.config, "algorithm.rollout_correction.bypass_mode", True, force_add=True)
    made.cut(batch("1", "2"), Letters(), str, {})
    assert made.judged == pytest.approx((reply + scored) / (rollouts + reply + scored))
