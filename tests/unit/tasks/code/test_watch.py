"""The watch over a test from outside: the limit that ended it is named, and no process is left."""

import math
import os
import signal
import time
from pathlib import Path

import pytest

from hostile.cheats import SAY
from metis.tasks.code import usage
from metis.tasks.code.bubblewrap import SandboxMissing
from metis.tasks.code.sandbox import scored
from metis.tasks.code.session import Dead, Session
from metis.tasks.code.tests import Io, Limits
from metis.tasks.code.watch import TOO_MANY_FILES, Watch
from sandboxed import needs_bubblewrap

pytestmark = needs_bubblewrap

LIMITS = Limits(cpu_seconds=5, wall_seconds=20, memory_mb=256)
SLEEP = SAY + "say('ready'); import time; time.sleep(60)"


@pytest.fixture
def session():
    made = Session(SLEEP, LIMITS)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("excess", "kind"), [(None, "timeout"), (TOO_MANY_FILES, TOO_MANY_FILES[0])]
)
def test_a_limit_that_was_passed_is_named_though_time_ran_out_unseen(
    session, monkeypatch, excess, kind
):
    session.start("serve")
    monkeypatch.setattr(Watch, "excess", lambda watch, late: excess)
    session._deadline = 0.0
    with pytest.raises(Dead) as dead:
        session.hold()
    assert dead.value.kind == kind


def test_a_test_beyond_its_time_is_told_of_before_its_processes_have_ended(session, monkeypatch):
    """They may have much to give back."""
    session.start("serve")
    session._deadline = 0.0
    with monkeypatch.context() as slowly:
        slowly.setattr(Watch, "ended", lambda watch, seconds: False)
        with pytest.raises(Dead):
            session.hold()
        assert not session.close(time.monotonic())
        assert not session.close(time.monotonic())
    assert session.close()


def test_a_sandbox_for_which_there_is_no_time_is_a_timeout():
    with pytest.raises(Dead, match="out of time"):
        Session(SLEEP, LIMITS, until=time.monotonic())


def test_the_outcome_comes_before_the_end_of_a_program_that_dies_slowly(monkeypatch):
    waited = []

    def ended(watch, seconds):
        waited.append(seconds)
        return seconds == math.inf and real(watch, seconds)

    real = Watch.ended
    monkeypatch.setattr(Watch, "ended", ended)
    started = time.monotonic()
    with scored("while True: pass", [Io("", "x")] * 3, LIMITS, seconds=1.5) as outcome:
        assert time.monotonic() - started < LIMITS.cpu_seconds
        assert outcome.kinds == {"timeout": 3} and math.inf not in waited
    assert waited[-1] == math.inf


def test_a_sandbox_that_does_not_start_in_time_is_missing(monkeypatch):
    monkeypatch.setattr("metis.tasks.code.session.PATIENCE", 0.0)
    with pytest.raises(SandboxMissing, match="out of time"):
        Session(SLEEP, LIMITS)


def test_a_sandbox_that_waits_for_its_next_test_has_no_limits(session):
    session.start("serve")
    session.stop()
    while session.running:
        session.hear()
    session.hold()
    session.start("serve")
    assert session.running


def test_the_limits_of_a_sandbox_hold_while_another_is_waited_for(session):
    other = Session(SLEEP, Limits(wall_seconds=0.2))
    session.beside = (other,)
    session.start("serve")
    other.start("serve")
    with pytest.raises(Dead, match="out of time"):
        assert session.hear() == ["ready"] and session.hear()
    assert session.running and session.seconds < LIMITS.wall_seconds
    other.close()


def test_processes_are_seen_from_outside_and_gone_at_the_end(session):
    session.start("serve")
    assert session.hear() == ["ready"]
    driver = session._watch._first
    pid = int(Path(f"/proc/self/fdinfo/{driver}").read_text().split("Pid:")[1].split()[0])
    listed = os.dup(session._watch._processes)
    assert usage.usage(listed).memory > 0
    os.kill(pid, signal.SIGSTOP)
    session.close()
    assert usage.usage(listed) == (0, 0) and not any(name.isdigit() for name in os.listdir(listed))
    os.close(listed)


MANY = (
    SAY
    + """
import mmap, time
kept = [mmap.mmap(-1, 4096, flags=34, prot=1 + number % 2 * 2) for number in range(3000)]
say("ready"); time.sleep(60)
"""
)


def test_mappings_are_counted_a_little_at_a_time_and_those_of_the_dead_are_not(monkeypatch):
    monkeypatch.setattr(usage, "BETWEEN_COUNTS", 0.0)
    monkeypatch.setattr(usage, "COUNTING", 0.0)
    session = Session(MANY, LIMITS)
    try:
        session.start("serve")
        assert session.hear() == ["ready"]
        counted, proc = usage.Mappings("1"), session._watch._processes
        looks = [counted.memory(proc) // usage.MAPPING for _ in range(400)]
        assert looks[0] == 0 and looks == sorted(looks) and 3000 < max(looks) < 4000
        assert len(set(looks)) > 10, "it took one look"
        session.stop()
        while session.running:
            session.hear()
        assert counted.memory(proc) == 0
        counted.close()
    finally:
        session.close()
