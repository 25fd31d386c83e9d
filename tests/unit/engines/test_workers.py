"""Calls in threads: one that is late is abandoned, and what it waits for ended."""

import asyncio
import threading

import pytest

from metis.engines.workers import Workers
from metis.tasks.abandonment import this_call


@pytest.fixture
def workers():
    made = Workers(timeout=2.0, places=1)
    yield made
    made.close()


def test_what_a_late_call_waits_for_is_ended(workers):
    ended, seen = threading.Event(), threading.Event()

    def late():
        try:
            with this_call().ended_by(ended.set):
                ended.wait()
        finally:
            seen.set()

    with pytest.raises(TimeoutError, match="late took longer"):
        workers.submit(late, "late").result(60)
    assert ended.wait(60) and seen.wait(60)
    assert workers.submit(lambda: 1, "quick").result(60) == 1


def test_a_thread_of_a_late_coroutine_is_ended_too(workers):
    ended = threading.Event()

    def late():
        with this_call().ended_by(ended.set):
            ended.wait()

    with pytest.raises(TimeoutError, match="took longer"):
        workers.submit(lambda: asyncio.to_thread(late), "late").result(60)
    assert ended.wait(60)
