"""A reward of one's own for problems in a file: the right number, and a little for being brief.

metis train task=file task.path=sums.jsonl task.reward=examples/own_reward.py:score task.heldout=10
"""

import json
from pathlib import Path

import metis
from metis.tasks.base import last_number


def score(reply, reference, row):
    right, words = last_number(reply) == float(reference), len(reply.split())
    return {"score": 0.9 * right + 0.1 * (words <= 20), "right": right, "words": words}


if __name__ == "__main__":
    problems = [{"problem": f"What is {n} + {n % 7}?", "answer": n + n % 7} for n in range(50)]
    Path("sums.jsonl").write_text("".join(json.dumps(problem) + "\n" for problem in problems))
    metis.train(
        task={"name": "file", "path": "sums.jsonl", "reward": score, "heldout": 10},
        engine={"max_tokens": 32},
        curriculum="uniform",
        steps=2,
        batch=4,
        group=4,
        out="runs/own-reward",
    )
