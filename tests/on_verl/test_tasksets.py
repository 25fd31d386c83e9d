"""`metis train engine=verl` on a taskset of verifiers, which is in an environment of its own."""

import os

import pytest

from integration.conftest import save_tiny
from metis.run import folder as run_folder
from running import cpu_overrides, finish, start

pytestmark = pytest.mark.slow


def test_a_taskset_is_trained_and_tested_on(tmp_path):
    python = os.environ.get("METIS_VERIFIERS")
    if not python:
        pytest.skip("METIS_VERIFIERS names no Python that has verifiers")
    extra = [word for word in cpu_overrides(1) if not word.startswith("reward.custom")]
    words = [
        *("engine=verl", f"engine.model={save_tiny(tmp_path / 'model')}"),
        *(f"engine.overrides={extra}", "engine.generation=transformers", "engine.max_prompt=128"),
        *("engine.context=256", "engine.tokens=1024", "engine.max_tokens=4"),
        *("engine.reward_timeout=300", "curriculum=uniform", "steps=1", "batch=2", "group=4"),
        *("task=verifiers", "task.id=owner/metis-sums", f"task.python={python}"),
        *("task.prompts=8", "task.heldout=2", "task.workers=1"),
    ]
    out = tmp_path / "run"
    finish(start(["-m", "metis.cli", "train", *words, "--out", str(out)], tmp_path), tmp_path)
    last = run_folder.read_log(out, "metrics")[-1]
    assert last["step"] == 1 and last["rollout/failed"] == 0 and "reward/words" in last
    rows = run_folder.read_log(out, "rollouts")
    assert len(rows) == 2 and {len(row["rewards"]) for row in rows} == {4}
    for row in rows:
        for reward, report in zip(row["rewards"], row["reported"], strict=True):
            total = 2 * report["correct"] + report["even"] - report["loud"]
            assert reward == pytest.approx((total + 1) / 4)
    tested = [row["prompt"] for row in run_folder.read_log(out, "evals")]
    assert tested and all(name.startswith("metis-sums:") for name in tested)
