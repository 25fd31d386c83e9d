"""The score of a response: its last box against the reference answer."""

import re

from metis.tasks.math.answers.equality import Opinion, same
from metis.text import last_box

_ROOMY_BOX = re.compile(r"\\(?:boxed\s+|fbox\s*)\{")
_BARE_BOX = re.compile(r"\\(?:boxed|fbox)\s+([^\s${}\\]+)")


def final_answer(response: str) -> str | None:
    """The content of the last closed box; `\\boxed 5` counts where no box has braces."""
    if "\\fbox" in response or response.count("\\boxed") > response.count("\\boxed{"):
        response = _ROOMY_BOX.sub(r"\\boxed{", response)
    content = last_box(response)
    if content is None and (bare := _BARE_BOX.findall(response)):
        return str(bare[-1]).rstrip(".,;")
    return content


def score(response: str, reference: str, verifier: Opinion | None = None) -> float:
    """1.0 when the last box of a response holds the reference answer, else 0.0."""
    answer = final_answer(response)
    return float(answer is not None and same(answer, reference, verifier))
