"""How an answer is scored: as in training, and for measured quantities also with a tolerance.

`score` is the scorer of the math task: the last box against the reference, exactly or with a
second opinion on what its writing leaves open.
"""

from metis.tasks.answers import Opinion, final_answer, score
from metis.tasks.answers.tolerance import close

FAITHFUL = "faithful"
"""The score that counts: what training would give."""
NUMERIC = "numeric"
"""The score beside it: numbers within 1 % of the reference are right."""


def scores(reply: str, reference: str, opinion: Opinion | None, measured: bool) -> dict[str, float]:
    """All scores of a reply, by name."""
    found = {FAITHFUL: score(reply, reference, opinion)}
    if measured:
        answer = final_answer(reply)
        near = answer is not None and close(answer, reference)
        found[NUMERIC] = max(found[FAITHFUL], float(near))
    return found
