"""A reward that a random model earns about half the time, and that fails at every fifth call."""

from itertools import count

calls = count(1)


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **_):
    if next(calls) % 5 == 0:
        raise ValueError("this answer cannot be scored")
    return {"score": float(len(solution_str) % 2 == 0), "acc": 0.0}
