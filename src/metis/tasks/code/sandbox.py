"""`run`: runs a program against its tests in a sandbox.

A program's tests share one sandbox, with a process each. Expected outputs never enter it. A pass
needs something that the program cannot know: the expected output, a nonce drawn for each call, or
the end of statements that run in another sandbox.
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
"""A program that forks until the process limit stops it."""


def run(
    program: str,
    tests: Sequence[Test],
    limits: Limits = DEFAULT,
    libraries: Sequence[Path] = (),
    seconds: float = math.inf,
) -> Outcome:
    """Run a Python program against tests, each within `limits`, all within `seconds`.

    It can import the standard library and the packages in `libraries`, folders as made by `pip
    install --target`. Whatever it does is a result, not an exception; SandboxMissing is raised if
    this machine cannot run the sandbox.
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
    """Like `run`, with the outcome on time; leaving the context waits until all processes have
    ended, which may take longer."""
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
    """Check once per process that the sandbox isolates; raises SandboxMissing if not."""
    bubblewrap.executable()
    with Runner(FORKS, Limits(processes=PROCESSES)) as runner:
        result = runner.result(Io("", "limited"))
    if not result.passed:
        raise SandboxMissing(
            f"the sandbox does not limit processes here ({result.detail}): it needs Linux 5.14 or "
            "newer, which counts them in each user namespace"
        )
