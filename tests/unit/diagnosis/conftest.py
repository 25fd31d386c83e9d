"""Run folders written by hand: a healthy one, and what is changed in it."""

import json

import pytest

from metis.run.recorded import read_run
from metis.run.transcripts import Transcripts

STEPS = 20
STEP = {
    "rollout/generated": 64.0,
    "rollout/tokens": 6400.0,
    "rollout/wasted": 3200.0,
    "batch/informative": 0.5,
    "batch/groups": 8.0,
    "update/gradient_norm": 0.5,
}
ENGINE = {"name": "local", "max_tokens": 256, "learning_rate": 3e-6}


def validation(step, rewards):
    mean = sum(rewards) / len(rewards)
    rows = [{"step": step, "prompt": f"held:{i}", "reward": r} for i, r in enumerate(rewards)]
    return {"eval/accuracy": mean, "eval/stderr": 0.02}, rows


def right(count, of=400):
    """Rewards of held-out prompts, so many of which are right."""
    return [1.0] * count + [0.0] * (of - count)


def group(step, rewards, tokens=None, failed=0, **row):
    return {
        **{"step": step, "prompt": f"p{step}", "category": "", "rewards": rewards},
        **{"tokens": tokens or [90 + i for i in range(len(rewards))], "failed": failed, **row},
    }


MIXED = [0.0, 1.0] * 4


def add_group(folder, step, answers, question="What is 8 + 9?", reference="17", rewards=None):
    """A group of the transcripts; all rewards are 0 where nothing else is said."""
    rewards = rewards or [0.0] * len(answers)
    asked = [{"role": "user", "content": question}]
    head = {"step": step, "prompt": f"p{step}", "messages": asked, "reference": reference}
    rows = [
        {"rollout": nth, "messages": [{"role": "assistant", "content": text}], "reward": reward}
        for nth, (text, reward) in enumerate(zip(answers, rewards, strict=True))
    ]
    Transcripts(folder).append("train", head, rows)


@pytest.fixture
def say():
    return add_group


@pytest.fixture
def make(tmp_path):
    """Writes a run; `step` makes the metrics of a step, `rewards` those of its group."""

    def folder(
        step=lambda number: {},
        rewards=lambda number: MIXED,
        before=100,
        after=200,
        of=400,
        said=None,
        earned=None,
        tokens=None,
        **config,
    ):
        settings = {"seed": 0, "steps": STEPS, "engine": ENGINE, "curriculum": {"name": "uniform"}}
        settings |= {"task": {"name": "file", "path": "sums.jsonl", "heldout": of}, **config}
        (tmp_path / "config.json").write_text(json.dumps(settings))
        (first, before_rows), (last, after_rows) = (
            validation(0, right(before, of)),
            validation(STEPS, right(after, of)),
        )
        metrics = [{"step": 0, **first}]
        metrics += [{"step": n, **STEP, **step(n)} for n in range(1, STEPS + 1)]
        metrics[-1] |= last
        logs = {
            "metrics": metrics,
            "evals": before_rows + after_rows,
            "rollouts": [
                group(n, rewards(n), tokens) for n in range(1, STEPS + 1) for _ in range(8)
            ],
        }
        for log, rows in logs.items():
            lines = "".join(json.dumps({"schema": 1, **row}) + "\n" for row in rows)
            (tmp_path / f"{log}.jsonl").write_text(lines)
        for step in range(1, STEPS + 1) if said else ():
            add_group(tmp_path, step, said, rewards=earned)
        return tmp_path

    def run(*arguments, **settings):
        return read_run(folder(*arguments, **settings))

    return run
