"""A reward that a random model earns about half the time, and that sometimes fails."""


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **_):
    if len(solution_str) % 5 == 1:
        raise ValueError("this answer cannot be scored")
    return {"score": float(len(solution_str) % 2 == 0), "acc": 0.0}
