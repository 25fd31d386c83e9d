"""Hostile programs: none gets out, none earns what it does not deserve, none outlives its test."""

import contextlib
import ctypes
import dataclasses
import os
import secrets
import signal
import socket
import tempfile
import time
from pathlib import Path

import pytest

from hostile import cheats, escapes, kernel, resources, unittests
from hostile.row import ESCAPED
from metis.tasks.code import bubblewrap
from metis.tasks.code.session import Dead, Session
from metis.tasks.sandbox import Io, Limits, run
from sandboxed import needs_bubblewrap

pytestmark = needs_bubblewrap

LIMITS = Limits(
    cpu_seconds=20, wall_seconds=30, memory_mb=128, processes=8, file_mb=2, output_kb=128
)
SHORT = dataclasses.replace(LIMITS, cpu_seconds=1, wall_seconds=1.5)
"""Of programs that only the clock ends: the others have to meet another limit first."""
PATIENCE = 15
"""Seconds on a busy machine beyond what the limits allow."""
PR_SET_CHILD_SUBREAPER = 36
PLACES = ("/", "/tmp", "/var/tmp", "/dev/shm", "/usr", "/usr/bin", "/usr/lib", "/etc", "/run", ".")
ROWS = {**resources.ROWS, **kernel.ROWS, **escapes.ROWS, **cheats.ROWS, **unittests.ROWS}


def children(pid="self"):
    """Children of a process; of this one with those that have lost their parent."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return {pid for thread in threads for pid in (thread / "children").read_text().split()}


def named(marker):
    """Files of the host whose name has a marker."""
    return [name for place in PLACES for name in os.listdir(place) if marker in name]


@contextlib.contextmanager
def subreaper():
    """Make this process the parent of orphans among its descendants."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.fixture(scope="module")
def host():
    """Things that programs would reach if they got out, by their names in the texts."""
    word = secrets.token_hex(8)
    with (
        subreaper(),
        tempfile.NamedTemporaryFile("w", dir="/tmp", prefix="metis-") as secret,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
        secret.write("escaped")
        secret.flush()
        os.chmod(secret.name, 0o644)
        datagrams.bind(server.getsockname())
        abstract.bind(f"\0{word}")
        abstract.listen()
        yield {
            "@PORT@": str(server.getsockname()[1]),
            "@SOCKET@": word,
            "@MARKER@": f"hostile-{word}",
            "@FILE@": secret.name,
        }
        for listening in (server, abstract, datagrams):
            listening.setblocking(False)
        for reached in (server.accept, abstract.accept, lambda: datagrams.recv(1)):
            with pytest.raises(BlockingIOError):
                reached()


@pytest.fixture(autouse=True)
def nothing_left(host):
    before = children()
    yield
    assert children() <= before
    assert named(host["@MARKER@"]) == []


@pytest.mark.parametrize("name", ROWS)
def test_a_hostile_program(name, host):
    row = ROWS[name]
    program = row.program
    for placeholder, value in host.items():
        program = program.replace(placeholder, value)
    limits = SHORT if "timeout" in row.kind else LIMITS
    start = time.monotonic()
    results = run(program, row.tests, limits).results
    assert time.monotonic() - start < len(row.tests) * SHORT.wall_seconds + PATIENCE
    for result in results:
        assert result.kind in row.kind.split() and row.detail in result.detail, result
    assert not results[0].passed


def test_a_sandbox_that_answers_no_more_leaves_no_process():
    before = children()
    session = Session("", LIMITS)
    (bwrap,) = children() - before
    (driver,) = children(bwrap)
    os.kill(int(driver), signal.SIGSTOP)
    session.close()


def test_a_starved_driver_leaves_no_process_and_earns_nothing_ten_times():
    many = dataclasses.replace(SHORT, cpu_seconds=0.5, processes=32, memory_mb=1024)
    for program in (kernel.BUSY, kernel.RESPAWNING) * 5:
        before, start = children(), time.monotonic()
        (result,) = run(program, (ESCAPED,), many).results
        assert children() <= before
        assert not result.passed and time.monotonic() - start < PATIENCE


WAIT = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
say('ready')
signal.sigwait({signal.SIGUSR1})
"""
HOGS = {
    "timeout": "while True: pass",
    "memory": "kept = [bytes([1]) * (100 << 20)]\nimport os, time\nos.fork()\ntime.sleep(60)",
    "memory of files": "number = 0\nwhile True:\n    open(str(number), 'w')\n    number += 1",
    "timeout of a sleep": "import time; time.sleep(60)",
}


@pytest.mark.parametrize("kind", HOGS)
def test_limits_hold_though_the_driver_does_nothing(kind):
    before, limits = children(), dataclasses.replace(LIMITS, cpu_seconds=1, wall_seconds=3)
    session = Session(cheats.SAY + WAIT + HOGS[kind], limits)
    session.start("serve")
    assert session.hear() == ["ready"]
    (bwrap,) = children() - before
    (driver,) = children(bwrap)
    (program,) = children(driver)
    os.kill(int(driver), signal.SIGSTOP)
    os.kill(int(program), signal.SIGUSR1)
    with pytest.raises(Dead) as dead:
        session.hear()
    assert dead.value.kind == kind.split()[0]
    assert session.close() and children() <= before


def test_a_driver_that_is_killed_earns_nothing():
    killed = []

    def kill(session, *arguments, **keywords):
        start(session, *arguments, **keywords)
        if not killed:
            killed.append(session)
            signal.pidfd_send_signal(session._watch._first, signal.SIGKILL)

    start = Session.start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "start", kill)
        results = run("print(input())", (Io("1", "1"), Io("2", "2")), LIMITS).results
    assert [result.kind for result in results] == ["error", "passed"]


@pytest.mark.parametrize("counts", [(100, 100), (253,)])
def test_descriptors_under_way_in_one_sandbox_leave_others_alone(counts):
    many = f"kept = [send(count) for count in {counts}]\nsay('ready')\n"
    session = Session(cheats.SAY + kernel.IN_FLIGHT + many + "while True: pass", LIMITS)
    session.start("serve")
    try:
        assert session.hear() == ["ready"]
        alone = bubblewrap.identity() in bubblewrap.NOBODIES
        sent = kernel.IN_FLIGHT + f"{alone} and send(1); print('escaped')"
        assert run(sent, (ESCAPED,) * 3, LIMITS).fraction == 1
    finally:
        session.close()
