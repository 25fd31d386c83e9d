"""Mathematics: problems with answers in boxes, and what an answer earns."""

from metis.tasks.math.task import (
    INSTRUCTION,
    Math,
    MathProblem,
    MathProblems,
    build,
    read_problems,
    reward,
    rows,
    wrap,
)

__all__ = [
    "INSTRUCTION",
    "Math",
    "MathProblem",
    "MathProblems",
    "build",
    "read_problems",
    "reward",
    "rows",
    "wrap",
]
