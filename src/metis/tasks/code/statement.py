"""Problem statements, for the policy and for a judge.

The paper's judge reads only the prose, without the sections Constraints, Input, Output, Examples
and Notes, to keep its prompt short. Sites name sections differently, so limits, scoring, subtasks,
hints, explanations and tests are dropped as well.
"""

import re

from metis.core import Chat

PROGRAM = (
    "Write a Python program that reads the input from standard input and prints the output. Reason "
    "step by step, and end with the whole program in one ```python block."
)
"""The instruction for problems with input and output."""
FUNCTION = (
    "Write the whole function in Python, with the imports it needs. Reason step by step, and end "
    "with the code in one ```python block."
)
"""The instruction for problems with a function."""

_NAMES = (
    r"constraints?|limits?|scoring|subtasks?|notes?|hints?|explanations?"
    r"|(?:the |sample |example )?(?:input|output|i/o)s?(?: (?:format|specification|data))?"
    r"|input and output|(?:sample|example|test)s?(?: (?:cases?|tests?))?"
)
_FORMAL = re.compile(rf"\W*(?:{_NAMES})(?:\s*#?\d+)?\W*", re.IGNORECASE)
_HEADING = re.compile(r"\s*(?:#{1,6}\s+\S.*|\*\*[^*]+\*\*:?|-{3,}\s*\S.*?-{3,})\s*")


def wrap(statement: str, instruction: str) -> Chat:
    """The chat that asks the policy to solve a problem."""
    return [{"role": "user", "content": f"{statement}\n\n{instruction}".strip()}]


def prose(statement: str) -> str:
    """The statement without its formal sections; all of it if nothing else is left."""
    kept: list[str] = []
    formal = False
    for line in statement.splitlines():
        if _FORMAL.fullmatch(line):
            formal = True
        elif _HEADING.fullmatch(line):
            formal = False
        if not formal:
            kept.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip() or statement.strip()
