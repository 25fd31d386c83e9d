"""Tokens a second of rollouts alone, beside verl's own number of all rows."""

import pytest
from verl import DataProto
from verl.trainer.ppo.metric_utils import compute_throughout_metrics

from metis.engines.verl.trainer.trainer import rollout_throughput
from metis.engines.verl.workers.rows import UpdateRow, order_rows, read_then_answer


def test_judgments_and_padding_are_in_verl_s_throughput_and_not_in_ours():
    rollouts = [UpdateRow(read_then_answer([1] * 30, [2] * 10)) for _ in range(2)]
    judgment = UpdateRow(read_then_answer([1] * 90, [2] * 10), kind="judgment")
    rows = order_rows([[*rollouts, judgment]], ranks=2, multiple=1, filler=0)
    tags = [row.tag for row in rows]
    lengths = sorted(tag["seq_len"] for tag in tags)
    assert lengths == [2, 40, 40, 100], "a row of padding fills up the ranks"
    batch = DataProto(meta_info={"global_token_num": lengths})
    theirs = compute_throughout_metrics(batch, {"step": 4.0}, n_gpus=2)
    ours = rollout_throughput(tags, 4.0, 2)
    assert (theirs["perf/total_num_tokens"], ours["perf/rollout_tokens"]) == (182, 80)
    assert theirs["perf/throughput"] == pytest.approx(182 / 8)
    assert ours["perf/rollout_throughput"] == pytest.approx(80 / 8)
