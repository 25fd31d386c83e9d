"""A worker process of the verifier: math-verify, killable at any time.

Run as a program; needs nothing of this package, so that it starts fast and imports no framework.
A request is (answer, reference, seconds), and its reply SAME, DIFFERENT, or KILLED when it took too
long or took its process down. The program itself never computes. It imports math-verify once and
forks a child that does the work, and when a child has to be killed, the next one is a fork away. A
child holds nothing of its parent's connection, and ends with it.
"""

import ctypes
import gc
import json
import logging
import math
import os
import select
import signal
import sys
from multiprocessing.connection import Connection

SAME, DIFFERENT, KILLED = "same", "different", "killed"
MEMORY = 2 << 30
"""Bytes of address space a child may have."""
PR_SET_PDEATHSIG = 1
JOBS = 1000
"""Requests after which a child is replaced, since the algebra system's caches grow."""
WARM_UP = (
    ("2\\sqrt{3}", "\\sqrt{12}"),
    ("(x+1)^2", "x^2+2x+2"),
    ("(1,2)\\cup(2,3)", "x<3"),
    ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}\\pi\\\\x\\end{pmatrix}"),
)
"""Pairs that trigger the algebra system's lazy imports."""


def same(answer: str, reference: str) -> bool:
    """math-verify's result; decimals must agree in 12 places to be equal."""
    from math_verify import LatexExtractionConfig, parse, verify

    rules = [LatexExtractionConfig(boxed_match_priority=0)]
    gold, given = (
        parse(f"\\boxed{{{text}}}", extraction_config=rules, parsing_timeout=None)
        for text in (reference, answer)
    )
    return bool(
        verify(gold, given, float_rounding=12, allow_set_relation_comp=True, timeout_seconds=None)
    )


class Child:
    """A fork that answers requests until its pipe is closed or it is killed."""

    def __init__(self, *foreign: int) -> None:
        """Fork; the child closes the `foreign` descriptors, by which others see its parent end."""
        (requests, self.requests), (self.replies, replies) = os.pipe(), os.pipe()
        self.jobs = 0
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            for descriptor in (self.requests, self.replies, *foreign):
                os.close(descriptor)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _end_with(parent)
            _serve(requests, replies)
        os.close(requests)
        os.close(replies)

    def ask(self, answer: str, reference: str, seconds: float) -> str:
        """The reply to a request; KILLED when there is none in time."""
        self.jobs += 1
        os.write(self.requests, json.dumps([answer, reference, seconds]).encode() + b"\n")
        ready, _, _ = select.select([self.replies], [], [], seconds)
        reply = os.read(self.replies, 1) if ready else b""
        return {b"1": SAME, b"0": DIFFERENT}.get(reply, KILLED)

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.requests)
        os.close(self.replies)


def _end_with(parent: int) -> None:
    """Have this process killed when its parent ends, where the system can do so."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _serve(requests: int, replies: int) -> None:
    """The child's loop; any error ends the child only."""
    import resource  # where there is none, other platforms can still import this file

    try:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        with open(requests, "rb") as lines:
            for line in lines:
                answer, reference, seconds = json.loads(line)
                spent = resource.getrusage(resource.RUSAGE_SELF)
                latest = math.ceil(spent.ru_utime + spent.ru_stime + seconds) + 1
                resource.setrlimit(resource.RLIMIT_CPU, (latest, resource.RLIM_INFINITY))
                os.write(replies, b"1" if same(answer, reference) else b"0")
    finally:
        os._exit(1)


def main() -> None:
    """Answer requests until the connection closes."""
    connection = Connection(int(sys.argv[1]))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    logging.disable(logging.CRITICAL)
    try:
        for answer, reference in WARM_UP:
            same(answer, reference)
    except ImportError as error:
        connection.send(f"math-verify does not start: {error}; mend it, or use task.verify=false")
        return
    gc.freeze()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())
    child = Child(connection.fileno())
    try:
        connection.send(None)
        while True:
            reply = child.ask(*connection.recv())
            if reply == KILLED or child.jobs >= JOBS:
                child.end()
                child = Child(connection.fileno())
            connection.send(reply)
    except (EOFError, ConnectionError):
        pass
    finally:
        child.end()


if __name__ == "__main__":
    main()
