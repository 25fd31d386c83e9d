"""The scores of an answer: the reward of training, and what is scored beside it.

The references of some benchmarks are measured quantities, which an exact scorer does not recognise
in another writing. Others have an official verdict, which is stricter than a continuous reward.
"""

from metis.tasks.math.answers import final_answer
from metis.tasks.math.answers.tolerance import close

FAITHFUL = "faithful"
"""The score that counts: what training would give."""
NUMERIC = "numeric"
"""The score beside it: numbers within 1 % of the reference are right."""

TITLES = {NUMERIC: "numbers within 1 %", "official": "official verdict"}
"""Scores beside the one that counts, as tables call them."""


def scores(reward: float, reply: str, reference: str, measured: bool) -> dict[str, float]:
    """All scores of a reply with this reward, by name."""
    if not measured:
        return {FAITHFUL: reward}
    answer = final_answer(reply)
    near = answer is not None and close(answer, reference)
    return {FAITHFUL: reward, NUMERIC: max(reward, float(near))}
