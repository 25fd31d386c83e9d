"""Programs and tests per second in the sandbox on two cores, and what isolation costs.

    python benchmarks/sandbox.py [--programs 40] [--rounds 3] [--tests 25]

Each program is an honest answer with its tests. It is run in the sandbox, and by the same driver
without isolation: no bubblewrap, no filter, no search for other processes and for files. The two
take turns, round by round, with two programs at a time; the ratio is that of the medians.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from metis.tasks.code import bubblewrap, session
from metis.tasks.code.watch import Watch
from metis.tasks.sandbox import Asserts, Call, Io, Limits, Test, ready, run

CORES = 2
IO = """
import sys
def main():
    numbers = list(map(int, sys.stdin.read().split()))
    best = [1] * len(numbers)
    for i, x in enumerate(numbers):
        for j in range(i):
            if numbers[j] < x:
                best[i] = max(best[i], best[j] + 1)
    print(max(best))
main()
"""
"""The longest increasing subsequence."""
FUNCTION = """
def gcd(a, b):
    while b:
        a, b = b, a % b
    return a
"""
BARE = """
import os, signal, sys
sys.path.insert(0, {root!r})
from metis.tasks.code.inside import driver

class Run(driver.Run):
    def _sweep(self):
        _, ended, usage = os.wait4(self.pid, 0)
        self.cpu += usage.ru_utime + usage.ru_stime
        return os.waitstatus_to_exitcode(ended)

    def _watch(self):
        reason = super()._watch()
        if reason != "exit":
            os.kill(self.pid, signal.SIGKILL)
        return reason

driver.Run, driver.HOME, driver.ROOT = Run, {root!r}, {root!r}
driver._clear = lambda folder: True
driver.main()
"""
"""The driver as an ordinary process, which must end no process but its own."""


def io_tests(count: int) -> list[Test]:
    rows = [" ".join(str(x) for x in range(length)) for length in range(10, 10 + count)]
    return [Io(row, str(len(row.split()))) for row in rows]


def call_tests(count: int) -> list[Test]:
    return [Call("gcd", (12 * n, 18 * n), 6 * n) for n in range(1, count + 1)]


def assert_tests(count: int) -> list[Test]:
    pairs = [(12 * n, 18 * n, 6 * n) for n in range(1, count + 1)]
    return [Asserts(f"assert gcd({a}, {b}) == {c}", ("gcd",)) for a, b, c in pairs]


KINDS: dict[str, tuple[str, Callable[[int], list[Test]]]] = {
    "stdin and stdout": (IO, io_tests),
    "function calls": (FUNCTION, call_tests),
    "asserts elsewhere": (FUNCTION, assert_tests),
}


@contextmanager
def without_isolation() -> Iterator[None]:
    """Sessions whose driver is an ordinary process."""
    with tempfile.TemporaryDirectory() as root:
        inside = Path(root, *Path(session.INSIDE).parts[2:])
        inside.mkdir(parents=True)
        for path, content in session._sources().items():
            (inside / Path(path).name).write_bytes(content)
        (Path(root) / "driver.py").write_text(BARE.format(root=root))
        with (
            patch.object(session, "INSIDE", root),
            patch.object(bubblewrap, "command", lambda *given: []),
            patch.object(bubblewrap, "identity", lambda: None),
            patch.object(Watch, "excess", lambda watch, late=False: None),
        ):
            yield


def measure(program: str, tests: list[Test], programs: int) -> float:
    """Seconds for so many programs, of which all tests have to pass."""
    limits = Limits()
    start = time.perf_counter()
    with ThreadPoolExecutor(CORES) as threads:
        outcomes = list(threads.map(lambda _: run(program, tests, limits), range(programs)))
    seconds = time.perf_counter() - start
    failed = [outcome for outcome in outcomes if outcome.fraction < 1]
    assert not failed, failed[0]
    return seconds


def compare(name: str, programs: int, rounds: int, count: int) -> None:
    program, made = KINDS[name]
    tests = made(count)
    bare, isolated = [], []
    for _ in range(rounds):
        with without_isolation():
            bare.append(measure(program, tests, programs))
        isolated.append(measure(program, tests, programs))
    seconds = statistics.median(isolated)
    ratio = seconds / statistics.median(bare)
    print(
        f"{name:18} {count:3} tests  {programs / seconds:7.1f} programs/s "
        f"{programs * count / seconds:8.1f} tests/s  "
        f"{1000 * CORES * seconds / (programs * count):6.2f} ms a test: "
        f"{ratio:.2f} times that without isolation"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tests", type=int, default=25)
    chosen = parser.parse_args()
    ready()
    for name in KINDS:
        for count in (1, chosen.tests):
            compare(name, chosen.programs, chosen.rounds, count)


if __name__ == "__main__":
    main()
