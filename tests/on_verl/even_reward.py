"""A reward that a random model earns about half the time, and that fails at every fifth call.

Its accuracy is better the later it is asked, so that of two tests the second is the best.
"""

from itertools import count

calls = count(1)


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **_):
    call = next(calls)
    if call % 5 == 0:
        raise ValueError("this answer cannot be scored")
    return {"score": float(len(solution_str) % 2 == 0), "acc": min(1.0, call / 1000)}
