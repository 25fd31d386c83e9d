"""A reward that depends on the answer alone, and one that tells the node it was computed on."""

import os

import held


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **_):
    held.at("reward")
    return {"score": float(len(solution_str) % 2 == 0)}


def placed(data_source, solution_str, ground_truth, extra_info=None, **_):
    scored = compute_score(data_source, solution_str, ground_truth)
    return {**scored, "node": int(os.environ[held.NUMBER])}
