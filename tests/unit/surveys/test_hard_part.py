"""The harder part of a prepared set: problems of low mean reward, as they were prepared."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from metis import MetisError
from metis.surveys.facts import PromptOutcome
from metis.surveys.outcome_set import OutcomeSet
from metis.tasks.math import Math, read_problems

SCRIPT = Path(__file__).parents[3] / "benchmarks/hard_part.py"


def row(number):
    return {
        "prompt": [{"role": "user", "content": f"Double {number}."}],
        "reward_model": {"style": "rule", "ground_truth": str(2 * number)},
        "extra_info": {"id": f"dapo:{number}", "problem": f"Double {number}."},
    }


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Nine problems, of which problem i is solved by i of eight rollouts."""
    data, kept, out = (tmp_path / name for name in ("dapo.jsonl", "set.jsonl.gz", "hard.jsonl"))
    data.write_text("".join(f"{json.dumps(row(i))}\n" for i in range(9)))
    outcomes = [
        PromptOutcome(f"dapo:{i}", "", tuple(float(k < i) for k in range(8)), (5,) * 8, 0, 0)
        for i in range(9)
    ]
    OutcomeSet({}, {}, 9, outcomes).write(kept)

    def call(*words, rows=9):
        data.write_text("".join(f"{json.dumps(row(i))}\n" for i in range(rows)))
        monkeypatch.setattr(sys, "argv", ["hard_part.py", str(kept), str(data), str(out), *words])
        runpy.run_path(str(SCRIPT), run_name="__main__")
        return [problem.prompt.id for problem in read_problems(Math(path="x"), str(out), "path")]

    return call


def test_problems_up_to_a_mean_reward_are_kept_with_their_ids(run, capsys):
    assert run() == ["dapo:0", "dapo:1", "dapo:2"]
    assert "3 of 9 problems (33.3% all-fail, 66.7% informative)" in capsys.readouterr().out
    assert run("--most", "0.125") == ["dapo:0", "dapo:1"]


def test_other_data_is_refused(run):
    with pytest.raises(MetisError, match="1 of 3 problems are not in"):
        run(rows=2)
    with pytest.raises(MetisError, match=r"--most = 1\.0: use a mean reward"):
        run("--most", "1.0")
