"""The scoring pool: bounded, replaced when killed, and never the end of a step."""

import os
import random
import signal
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from metis.engines.workers import Workers
from metis.errors import MetisError
from metis.tasks import processes
from metis.tasks.abandonment import AbandonableCall, Abandoned, current
from metis.tasks.code import pool as pools
from metis.tasks.code.pool import ATTEMPTS, SandboxPool, WorkerLost
from metis.tasks.code.tests import Io, Limits
from sandboxed import needs_bubblewrap

pytestmark = needs_bubblewrap
LIMITS = Limits(cpu_seconds=5, wall_seconds=20, memory_mb=256)
DOUBLE = "print(2 * int(input()))"
TESTS = [Io(f"{n}\n", f"{2 * n}\n") for n in range(4)]


@pytest.fixture
def pool():
    made = SandboxPool(2)
    yield made
    made.close()


def test_a_program_is_run(pool):
    found = pool.run(DOUBLE, TESTS, LIMITS)
    assert (found.outcome.passed, found.outcome.total, found.rescored) == (4, 4, 0)
    assert pool.run("print(0)", TESTS, LIMITS).outcome.fraction == 0.25


def test_a_program_is_run_for_a_process_that_ignores_its_children(pool):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert pool.run(DOUBLE, TESTS, LIMITS).outcome.fraction == 1
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_no_more_workers_than_asked_for(pool):
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: pool.run(DOUBLE, TESTS, LIMITS), range(12)))
    assert all(each.outcome.fraction == 1 for each in found)
    assert 1 <= len(pool.processes) <= 2


def test_workers_end_with_their_pool(pool):
    pool.run(DOUBLE, TESTS, LIMITS)
    [process] = pool.processes
    pool.close()
    assert pool.processes == []
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    assert pool.run(DOUBLE, TESTS, LIMITS).rescored == 0


def test_a_worker_killed_at_work_is_replaced_and_its_program_run_again(pool):
    killed = []

    def kill_once(*arguments):
        if not killed:
            killed.append(pool.processes[0])
            os.kill(killed[0], signal.SIGKILL)

    with pytest.MonkeyPatch.context() as patch:
        ask = processes.Worker.ask
        patch.setattr(processes.Worker, "ask", lambda *a: (kill_once(), ask(*a))[1])
        found = pool.run(DOUBLE, TESTS, LIMITS)
    assert killed and (found.outcome.fraction, found.rescored) == (1, 1)
    assert killed[0] not in pool.processes


def test_a_program_whose_workers_are_all_killed_is_lost(pool):
    def kill(worker, *arguments):
        worker.process.kill()
        return ask(worker, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        ask = processes.Worker.ask
        patch.setattr(processes.Worker, "ask", kill)
        with pytest.raises(WorkerLost, match=f"{ATTEMPTS} workers"):
            pool.run(DOUBLE, TESTS, LIMITS)
    assert pool.run(DOUBLE, TESTS, LIMITS).outcome.fraction == 1


class Doomed:
    """A connection whose worker is killed at its work, now and then."""

    def __init__(self, worker, draw):
        self.worker, self.draw, self.real = worker, draw, worker.connection

    def send(self, request):
        self.real.send(request)
        if self.draw.random() < 0.3:
            self.worker.process.kill()

    def __getattr__(self, name):
        return getattr(self.real, name)


def test_workers_killed_at_random_lose_no_program(pool, monkeypatch):
    draw, ask = random.Random(1), processes.Worker.ask

    def asked(worker, *arguments):
        if not isinstance(worker.connection, Doomed):
            worker.connection = Doomed(worker, draw)
        return ask(worker, *arguments)

    def score(_):
        try:
            found = pool.run(DOUBLE, TESTS, LIMITS)
            return found.outcome.fraction, found.rescored
        except WorkerLost:
            return None

    monkeypatch.setattr(processes.Worker, "ask", asked)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(score, range(16)))
    scored = [each for each in found if each is not None]
    assert len(found) == 16 and all(fraction == 1 for fraction, _ in scored)
    assert len(scored) > 8 and sum(again for _, again in scored) > 0


def test_a_worker_that_hangs_is_replaced(pool, monkeypatch):
    monkeypatch.setattr(pools, "GRACE", -len(TESTS) * LIMITS.wall_seconds)
    with pytest.raises(WorkerLost):
        pool.run(DOUBLE, TESTS, LIMITS)


def test_a_worker_that_takes_nothing_is_replaced(pool, monkeypatch):
    started = processes.Worker.__init__

    def start_stopped(worker, program, python):
        started(worker, program, python)
        os.kill(worker.process.pid, signal.SIGSTOP)

    monkeypatch.setattr(processes.Worker, "__init__", start_stopped)
    monkeypatch.setattr(pools, "GRACE", 0.1 - LIMITS.wall_seconds)
    with pytest.raises(WorkerLost):
        pool.run(DOUBLE, [Io("1" * (8 << 20), "")], LIMITS)
    assert pool.processes == []


def test_an_abandoned_program_leaves_its_place_to_the_next(monkeypatch):
    pool, call, asked = SandboxPool(1), AbandonableCall(), threading.Event()
    ask = processes.Worker.ask
    monkeypatch.setattr(processes.Worker, "ask", lambda *a: (asked.set(), ask(*a))[1])

    def abandoned():
        current.set(call)
        with pytest.raises(Abandoned):
            pool.run("import time; time.sleep(600)", TESTS, Limits(wall_seconds=600))
        with pytest.raises(Abandoned):
            pool.run(DOUBLE, TESTS, LIMITS)
        return True

    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(abandoned)
        assert asked.wait(60)
        call.abandon()
        assert found.result(60)
    assert pool.processes == []
    assert pool.run(DOUBLE, TESTS, LIMITS).outcome.fraction == 1
    pool.close()


DYING = 4.0
SLOW_END = f"""
import time
from metis.tasks.code.watch import Watch

kill, ended = Watch.kill, Watch.ended

def killed(watch):
    watch.dead = getattr(watch, "dead", time.monotonic() + {DYING})
    kill(watch)

def ended_late(watch, seconds):
    left = watch.dead - time.monotonic()
    time.sleep(max(0.0, min(left, seconds)))
    return left <= seconds and ended(watch, seconds)

Watch.kill, Watch.ended = killed, ended_late
"""
"""Sandboxes whose processes give back much, and so need some time to end."""


@pytest.fixture
def slow_ends(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(SLOW_END))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_a_program_that_dies_slowly_is_scored_in_time_and_its_worker_is_busy_until_it_is_gone(
    slow_ends, monkeypatch
):
    monkeypatch.setattr(pools, "SPARE", 2.0)
    pool = SandboxPool(1)
    try:
        pool.run(DOUBLE, TESTS[:1], LIMITS)
        [process] = pool.processes
        current.set(call := AbandonableCall())
        call.deadline = time.monotonic() + 5.0
        found = pool.run("while True: pass", TESTS, Limits(cpu_seconds=60, wall_seconds=60))
        assert time.monotonic() < call.deadline
        assert found.outcome.kinds == {"timeout": 4}
        current.set(None)
        started = time.monotonic()
        assert pool.run(DOUBLE, TESTS[:1], LIMITS).outcome.fraction == 1
        assert time.monotonic() - started > DYING - 3.0, "it began beside the one before"
        assert pool.processes == [process]
    finally:
        current.set(None)
        pool.close()


def test_a_worker_that_does_not_become_free_is_replaced(slow_ends, monkeypatch):
    monkeypatch.setattr(pools, "GRACE", -1.0)
    pool = SandboxPool(1)
    try:
        worker = pool.take()
        pool._free(worker, 0.0)
        assert pool._idle.get(timeout=30) is None and pool.processes == []
        assert worker.ended
    finally:
        pool.close()


def test_a_connection_is_closed_once_and_not_while_it_is_used():
    """Its descriptor may be another's by then."""
    worker = processes.Worker(SandboxPool(1).program, sys.executable)
    closed = []
    real = worker.connection

    class Watched:
        used = False

        def recv(self):
            Watched.used = True
            try:
                return real.recv()
            finally:
                time.sleep(0.2)
                Watched.used = False

        def close(self):
            closed.append(Watched.used)
            real.close()

        def __getattr__(self, name):
            return getattr(real, name)

    worker.connection = Watched()
    with ThreadPoolExecutor(3) as threads:
        request = ("while True: pass", tuple(TESTS), LIMITS, time.monotonic() + 60)
        asked = threads.submit(worker.ask, request, 60)
        while not Watched.used:
            time.sleep(0.01)
        ends = [threads.submit(worker.end) for _ in range(2)]
        assert [end.result() for end in ends] == [None, None]
        with pytest.raises(processes.PoolClosed):
            asked.result()
    assert not any(closed)


def test_a_pool_needs_a_worker():
    with pytest.raises(MetisError, match="use at least 1"):
        SandboxPool(0)


def test_a_program_that_is_late_is_scored_before_its_call_is_abandoned(pool):
    workers = Workers(timeout=10.0, places=1)
    program = "import time\nif input() != '0': time.sleep(600)\nprint(0)"
    try:
        call = workers.submit(lambda: pool.run(program, TESTS, LIMITS), "a reward")
        found = call.result(60)
    finally:
        workers.close()
    assert found.outcome.passed == 1 and found.outcome.kinds["timeout"] == 3
