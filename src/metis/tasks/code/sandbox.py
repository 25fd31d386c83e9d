"""`run`: a program against its tests, in a sandbox that nothing gets out of.

One sandbox serves all tests of a program, with a process for each. Expected outputs never enter it.
A pass counts only with a word that the program cannot know: the expected output itself, one drawn
for each call, or the end of statements that run elsewhere.
"""

import functools
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from metis.errors import MetisError
from metis.tasks.code import bubblewrap
from metis.tasks.code.bubblewrap import SandboxMissing
from metis.tasks.code.checkers import BadChecker
from metis.tasks.code.runner import Runner
from metis.tasks.code.tests import (
    Asserts,
    Call,
    Checker,
    Io,
    Kind,
    Limits,
    Outcome,
    Result,
    Script,
    Test,
)

__all__ = [
    "Asserts",
    "BadChecker",
    "Call",
    "Checker",
    "Io",
    "Kind",
    "Limits",
    "Outcome",
    "Result",
    "SandboxMissing",
    "Script",
    "Test",
    "ready",
    "run",
]

DEFAULT = Limits()
NOT_RUN = Result("timeout", "not run, after the program's other timeouts")
TOO_LATE = Result("timeout", "not run, as the time of all tests together was over")
PROCESSES = 4
FORKS = f"""
import os, signal
started = 0
try:
    while started < {4 * PROCESSES}:
        if os.fork() == 0:
            signal.pause()
        started += 1
except BlockingIOError:
    print("limited" if started < {PROCESSES} else "late")
"""
"""A program that starts processes until it is refused one."""


def run(
    program: str,
    tests: Sequence[Test],
    limits: Limits = DEFAULT,
    libraries: Sequence[Path] = (),
    seconds: float = math.inf,
) -> Outcome:
    """Run a Python program against tests, each within the limits, and all within so many seconds.

    It has the standard library, and the packages in `libraries`: folders as `pip install --target`
    makes them. Nothing that it does raises; SandboxMissing where there is no sandbox to run it in.
    """
    with scored(program, tests, limits, libraries, seconds) as outcome:
        return outcome


@contextmanager
def scored(
    program: str,
    tests: Sequence[Test],
    limits: Limits = DEFAULT,
    libraries: Sequence[Path] = (),
    seconds: float = math.inf,
) -> Iterator[Outcome]:
    """The same, in time; the end of the block waits for the end of all processes, which may take
    longer."""
    until = time.monotonic() + seconds
    for folder in libraries:
        if not bubblewrap.reachable(folder):
            raise MetisError(f"libraries: the sandbox cannot read {str(folder)!r}: chmod a+rx it")
    ready()
    inputs = [test.stdin.encode("utf-8", "replace") for test in tests if isinstance(test, Io)]
    results: list[Result] = []
    with Runner(program, limits, libraries, max(map(len, inputs), default=0), until) as runner:
        for test in tests:
            timeouts = sum(result.kind == "timeout" for result in results)
            if limits.timeouts and timeouts >= limits.timeouts:
                results.append(NOT_RUN)
            elif time.monotonic() >= until:
                results.append(TOO_LATE)
            else:
                results.append(runner.result(test))
        yield Outcome(tuple(results))


@functools.cache
def ready() -> None:
    """Make sure that the sandbox holds, once in a process; SandboxMissing where it does not."""
    bubblewrap.executable()
    with Runner(FORKS, Limits(processes=PROCESSES)) as runner:
        result = runner.result(Io("", "limited"))
    if not result.passed:
        raise SandboxMissing(
            f"the sandbox does not limit processes here ({result.detail}): it needs Linux 5.14 or "
            "newer, which counts them in each user namespace"
        )
