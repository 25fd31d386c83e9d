"""The scores of an answer: the reward of training, and what is scored beside it.

The references of some benchmarks are measured quantities, which an exact scorer does not recognise
in another writing. Programs that fail one test of many are nearly right, and useless. Others have
an official verdict, which is stricter than a continuous reward.
"""

from metis.tasks.math.answers.score import final_answer
from metis.tasks.math.answers.tolerance import close

FAITHFUL = "faithful"
"""The score that counts: what training would give."""
NUMERIC = "numeric"
"""A score beside it: numbers within 1 % of the reference are right."""
ALL_PASSED = "all_passed"
"""A score beside it: programs that pass all tests are right, others wrong."""
TITLES = {
    NUMERIC: "numbers within 1 %",
    ALL_PASSED: "all tests passed",
    "official": "official verdict",
}
"""Scores beside the one that counts, as tables call them."""


def scores(reward: float, reply: str, reference: str, beside: str) -> dict[str, float]:
    """All scores of a reply with this reward, by name."""
    scored = {FAITHFUL: reward}
    if beside == NUMERIC:
        answer = final_answer(reply)
        near = answer is not None and close(answer, reference)
        scored[NUMERIC] = max(reward, float(near))
    elif beside == ALL_PASSED:
        scored[ALL_PASSED] = float(reward == 1.0)
    return scored
