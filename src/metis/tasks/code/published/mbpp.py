"""MBPP (Austin et al., 2021): short functions. A test is one assertion of the problem's list.

`test_setup_code` creates objects of the answer's own classes (problems 367 and 927), so it runs
after the answer, in its process. The paper's 974 problems are all splits together; 11 to 510 are
the test split.
"""

from collections.abc import Mapping
from typing import Any

from metis.tasks.code.extraction import parsed
from metis.tasks.code.problem import Problem
from metis.tasks.code.published.asserts import as_test, defined
from metis.tasks.code.tests import Limits

TEST_SPLIT = range(11, 511)
LIMITS = Limits(cpu_seconds=10.0, wall_seconds=60.0)
"""The reference solution of problem 123 needs seconds of CPU time, on a core that may be shared."""


def problem(row: Mapping[str, Any]) -> Problem:
    """A row of `google-research-datasets/mbpp`, config full."""
    reference = _lines(row["code"])
    functions, setup = defined(reference), _lines(row["test_setup_code"]).strip()
    items = [_lines(item).strip() for item in row["test_list"]]
    shown = "\n".join(items)
    return Problem(
        id=f"mbpp:{row['task_id']}",
        statement=f"{row['text'].strip()}\n\nThe code has to pass these tests:\n"
        f"```python\n{shown}\n```",
        tests=tuple(as_test(parsed(item).body, functions, setup) for item in items),
        category="mbpp",
        limits=LIMITS,
        reference=reference,
        view=str(row["text"]).strip(),
    )


def in_test_split(name: str) -> bool:
    """True if the id is one of the 500 problems of the test split."""
    return int(name.rpartition(":")[2]) in TEST_SPLIT


def _lines(text: Any) -> str:
    """Normalize the line ends of a text of the data set."""
    return str(text).replace("\r\n", "\n")
