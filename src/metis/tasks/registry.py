"""Tasks by their name: what is asked, and what an answer earns."""

from collections.abc import Callable
from typing import Any, NamedTuple

from metis.tasks import arithmetic, bfcl, file, gym, math, verifiers
from metis.tasks.base import ReadRow, Task
from metis.tasks.code.task import Code
from metis.tasks.code.task import build as build_code


class TaskEntry(NamedTuple):
    """The settings of a task, and how it is built from them and a seed.

    rows  how it reads the rows of its file one by one; None where it does not
    """

    settings: type[Any]
    build: Callable[[Any, int], Task]
    rows: Callable[[Any], ReadRow] | None = None


TASKS: dict[str, TaskEntry] = {
    "arithmetic": TaskEntry(arithmetic.Arithmetic, arithmetic.build),
    "bfcl": TaskEntry(bfcl.Bfcl, bfcl.build),
    "code": TaskEntry(Code, build_code),
    "file": TaskEntry(file.File, file.build, file.rows),
    "gym": TaskEntry(gym.Gym, gym.build),
    "math": TaskEntry(math.Math, math.build, math.rows),
    "verifiers": TaskEntry(verifiers.Verifiers, verifiers.build),
}
