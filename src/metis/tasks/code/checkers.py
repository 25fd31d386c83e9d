"""Testlib checkers: C++ programs that decide whether an output is correct.

A checker is compiled once, in a sandbox, into `METIS_HOME/checkers` under the hash of its source
and header, and runs in a sandbox of its own. It is called as `checker input output answer`; its
exit status is 0 for a correct output, 1 or 2 for a wrong one, and 3 if the answer itself is wrong.
`testlib.h` (Mike Mirzayanov, MIT) is downloaded once from the package index, or read from the file
in `METIS_TESTLIB`.
"""

import functools
import hashlib
import math
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from metis import files
from metis.data import fetched
from metis.errors import MetisError
from metis.tasks.code.bubblewrap import install_command
from metis.tasks.code.exchange import Exchange, Failed
from metis.tasks.code.inside.plain import unpack
from metis.tasks.code.session import Dead, Session
from metis.tasks.code.tests import Limits

HEADER = "METIS_TESTLIB"
TESTLIB = fetched.WheelFile(
    requirement="rbx.cp==2.3.3",
    member="rbx/resources/predownloaded/testlib.h",
    sha256="26facaf1259071eb14ff9e011b6b50473a14ab0e0a8e702087b73cffd1fb1b90",
    megabytes=3,
    remedy=f"set {HEADER} to a copy of testlib.h",
)
COMPILING = Limits(
    cpu_seconds=60, wall_seconds=120, memory_mb=2048, processes=16, file_mb=64, output_kb=65536
)
CHECKING = Limits(cpu_seconds=10, wall_seconds=20, memory_mb=1024, processes=4, file_mb=256)
BINARY = "/checker"
RIGHT, WRONG, PRESENTATION, POINTS = 0, 1, 2, 7
VERSION = 1
"""Version of the compilation, part of the hash."""
LONGEST = 200

COMPILE = """
import subprocess

def compiled(source, header):
    for name, text in (("checker.cpp", source), ("testlib.h", header)):
        with open(name, "w") as file:
            file.write(text)
    words = ["g++", "-std=c++17", "-O1", "-w", "-I.", "-o", "checker", "checker.cpp"]
    ran = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ran.returncode:
        return ran.stderr[:1000]
    with open("checker", "rb") as file:
        return file.read()
"""
CHECK = f"""
import os

def check(*texts):
    names = ("input", "output", "answer")
    for name, text in zip(names, texts):
        with open(name, "w", newline="") as file:
            file.write(text)
    flags = os.O_WRONLY | os.O_CREAT
    streams = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    for number, name in ((1, os.devnull), (2, "remark")):
        streams.append((os.POSIX_SPAWN_OPEN, number, name, flags, 0o600))
    process = os.posix_spawn("{BINARY}", ["{BINARY}", *names], {{}}, file_actions=streams)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with open("remark", "rb") as file:
        return status, file.read({LONGEST}).decode("utf-8", "replace").strip()
"""


class BadChecker(MetisError):
    """A checker that does not compile, or that rejects the expected output."""


class CheckerSession:
    """A compiled checker in its sandbox."""

    def __init__(self, source: str, until: float = math.inf) -> None:
        """`until` is the deadline; after it every output counts as wrong."""
        self._binary, self._until = compiled(source), until
        self._session: Session | None = None

    def check(self, stdin: str, output: str, answer: str) -> tuple[bool, str]:
        """Whether the output is correct, and the checker's comment.

        If the checker crashes, the output is wrong, unless it also rejects the expected output.
        """
        status, remark = self._status(stdin, output, answer)
        if status not in (RIGHT, WRONG, PRESENTATION, POINTS):
            refused = self._status(stdin, answer, answer)[0] != RIGHT
            if refused and time.monotonic() < self._until:
                raise BadChecker(f"a checker refuses the expected output ({remark}): drop the test")
            remark = f"the checker failed: {remark}"
        return status == RIGHT, remark

    def _status(self, *texts: str) -> tuple[int | None, str]:
        """The checker's exit status and comment; None if it reached a limit."""
        try:
            if self._session is None:
                files = {BINARY: self._binary}
                self._session = Session(CHECK, CHECKING, files=files, until=self._until)
            status, remark = unpack(Exchange(self._session).value("check", *texts))
            return status, remark
        except (Failed, Dead) as failed:
            self.close()
            return None, failed.detail

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def compiled(source: str) -> bytes:
    """The binary of a checker, from the cache if it was compiled before."""
    header = testlib() if "testlib.h" in source else ""
    digest = hashlib.sha256(f"{VERSION}\0{header}\0{source}".encode()).hexdigest()
    path = fetched.home() / "checkers" / digest
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_suffix(".lock")
        with files.lock(lock, wait=True):
            try:
                if not path.is_file():
                    binary = _compile(source, header)
                    with files.atomic(path) as file:
                        file.write(binary)
            finally:
                lock.unlink(missing_ok=True)
    return path.read_bytes()


def _compile(source: str, header: str) -> bytes:
    if shutil.which("g++") is None:
        command = install_command("g++")
        raise MetisError(f"testlib checkers need g++, which is not installed: {command}")
    session = Session(COMPILE, COMPILING)
    try:
        made = unpack(Exchange(session).value("compiled", source, header))
    except (Failed, Dead) as failed:
        raise BadChecker(f"a checker could not be compiled: {failed.detail}") from None
    finally:
        session.close()
    if isinstance(made, str):
        raise BadChecker(f"a checker could not be compiled: {made}")
    return bytes(made)


@functools.cache
def testlib() -> str:
    """The text of testlib.h."""
    named = os.environ.get(HEADER)
    path = Path(named) if named else fetched.home() / "checkers" / "testlib.h"
    if named is None and not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            fetched.fetch(TESTLIB, Path(folder), _say).replace(path)
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MetisError(f"{HEADER} = {str(path)!r} cannot be read ({error})") from None


def _say(text: str) -> None:
    print(f"metis: {text}", file=sys.stderr, flush=True)
