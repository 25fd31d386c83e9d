"""How an answer is scored: as in training, and for measured quantities also with a tolerance.

`reward` is the scorer of the math task: the last box against the reference, exactly or with a
second opinion on what its writing leaves open (`verify`).
"""

from metis.tasks.answers import final_answer
from metis.tasks.answers.tolerance import close
from metis.tasks.math import reward

FAITHFUL = "faithful"
"""The score that counts: what training would give."""
NUMERIC = "numeric"
"""The score beside it: numbers within 1 % of the reference are right."""


def scores(reply: str, reference: str, verify: bool, measured: bool) -> dict[str, float]:
    """All scores of a reply, by name."""
    found = {FAITHFUL: reward(reply, reference, verify)}
    if measured:
        answer = final_answer(reply)
        near = answer is not None and close(answer, reference)
        found[NUMERIC] = max(found[FAITHFUL], float(near))
    return found
