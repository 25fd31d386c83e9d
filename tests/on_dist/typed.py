"""A user's program, as a type checker sees it with METIS installed from its wheel."""

from typing import assert_type

import metis


def reward(reply: str, reference: str) -> float:
    return float(reply.strip() == reference)


selector = metis.Selector(["a", "b", "c"], "mopps", batch=2, group=2)
for pick in selector.propose():
    selector.observe(pick.id, [0.0, 1.0])

rows = [{"problem": "1 + 1", "answer": "2"}]
run = metis.train(data=rows, reward=reward, steps=2, out="runs/a", show=False)
assert_type(run, metis.TrainedRun)
answers: list[str] = [row["answer"] for row in run.rollouts]
