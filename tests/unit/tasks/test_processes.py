"""Worker processes: bounded, killed when late, replaced, and gone with their pool."""

import os
import signal
import sys
import threading
import time

import pytest

from metis.errors import MetisError
from metis.tasks.abandonment import AbandonableCall, Abandoned
from metis.tasks.processes import NoWorkerFree, PoolClosed, ProcessPool, WorkerEnded

ECHO = """
import sys, time
from multiprocessing.connection import Connection
connection = Connection(int(sys.argv[1]))
connection.send(None)
while True:
    seconds, word = connection.recv()
    time.sleep(seconds)
    connection.send(word)
"""
BROKEN = """
import sys
from multiprocessing.connection import Connection
Connection(int(sys.argv[1])).send("no such thing here")
"""


@pytest.fixture
def pool():
    with ProcessPool(("-c", ECHO), 1) as made:
        yield made


def gone(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_worker_given_back_serves_the_next(pool):
    for word in "ab":
        worker = pool.take()
        assert worker.ask((0, word), 60) == word
        pool.give(worker)
    assert pool.processes == [worker.process.pid]


def test_a_late_worker_is_killed_and_one_that_is_dropped_is_replaced(pool):
    worker = pool.take()
    with pytest.raises(WorkerEnded):
        worker.ask((600, "late"), 0.1)
    pool.drop(worker)
    assert gone(worker.process.pid) and pool.processes == []
    assert pool.take().ask((0, "next"), 60) == "next"


def test_a_worker_that_died_idle_is_replaced(pool):
    worker = pool.take()
    pool.give(worker)
    os.kill(worker.process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, worker.process.pid, os.WEXITED | os.WNOWAIT)
    assert pool.take().ask((0, "next"), 60) == "next"
    assert len(pool.processes) == 1 and gone(worker.process.pid)


def test_no_more_workers_than_asked_for(pool):
    worker = pool.take()
    with pytest.raises(NoWorkerFree):
        pool.take(0.1)
    pool.give(worker)
    assert pool.take(0.1) is worker


def test_an_abandoned_call_takes_nothing(pool):
    call = AbandonableCall()
    call.abandon()
    with pytest.raises(Abandoned):
        pool.take(call=call)
    assert pool.processes == [] and pool.take(60)


def test_closing_ends_a_busy_worker_and_tells_who_asked_it(pool):
    worker, raised = pool.take(), []

    def ask():
        try:
            worker.ask((600, "never"), 600)
        except PoolClosed as error:
            raised.append(error)
        pool.drop(worker)

    thread = threading.Thread(target=ask)
    thread.start()
    while not worker._using.locked():
        time.sleep(0.01)
    pool.close()
    thread.join(60)
    assert len(raised) == 1 and gone(worker.process.pid)
    assert pool.take(60).ask((0, "again"), 60) == "again"


def test_a_worker_that_cannot_work_says_why_and_leaves_its_place():
    pool = ProcessPool(("-c", BROKEN), 1)
    for _ in range(2):
        with pytest.raises(MetisError, match="no such thing here"):
            pool.take(60)
    assert pool.processes == []


def test_a_worker_that_ends_as_it_starts_leaves_its_place():
    pool = ProcessPool(("-c", "pass"), 1)
    for _ in range(2):
        with pytest.raises(WorkerEnded):
            pool.take(60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
def test_a_fork_starts_workers_of_its_own(pool):
    worker = pool.take()
    child = os.fork()
    if child == 0:
        mine = pool.take(60)
        served = mine.ask((0, "child"), 60) == "child" and mine.process.pid != worker.process.pid
        pool.close()
        os._exit(0 if served else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert worker.ask((0, "parent"), 60) == "parent"
    pool.give(worker)


def test_a_pool_needs_a_worker():
    with pytest.raises(MetisError):
        ProcessPool((sys.executable,), 0)
