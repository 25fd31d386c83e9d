"""The second opinion: hostile answers, threads, forks, and processes that end."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from metis import MetisError
from metis.core import Prompt
from metis.engines.rewards import RewardRunner
from metis.tasks import processes
from metis.tasks.abandonment import AbandonableCall, current
from metis.tasks.base import SingleTurn, scorers
from metis.tasks.math import reward
from metis.tasks.math.answers import verifier as verifiers
from metis.tasks.math.answers import worker
from metis.tasks.math.answers.verifier import Verifier
from metis.tasks.math.task import MathProblem, MathProblems

TOWER = "9^{9^{9^9}}"


@pytest.fixture
def open_verifier():
    opened = []

    def make(**options):
        opened.append(Verifier(**options))
        return opened[-1]

    yield make
    for verifier in opened:
        verifier.close()


def test_a_hostile_answer_costs_its_time_limit_and_harms_no_other(open_verifier):
    verifier = open_verifier(seconds=1.0, workers=1)
    assert verifier.same("\\sqrt{12}", "2\\sqrt{3}")
    before = verifier.processes
    start = time.perf_counter()
    assert not verifier.same(TOWER, "5")
    assert 1.0 <= time.perf_counter() - start < 10.0
    assert verifier.same("\\sqrt{20}", "2\\sqrt{5}")
    assert verifier.processes == before, "the worker goes on; only its child was killed"


def test_an_opinion_is_asked_for_once(open_verifier):
    verifier = open_verifier(seconds=1.5, workers=2)
    verifier.same("x", "y")
    start = time.perf_counter()
    threads = [threading.Thread(target=verifier.same, args=(TOWER, "5")) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not verifier.same(TOWER, "5")
    assert time.perf_counter() - start < 8 * 1.5


def test_too_much_memory_and_other_accidents_end_the_child_alone():
    ended = script(
        """
        from metis.tasks.math.answers import worker
        worker.same = lambda answer, reference: eval(answer)
        for accident in ("bytearray(3 << 30)", "1 / 0", "exit()", "os.abort()"):
            child = worker.Child()
            assert child.ask("True", "", 20) == worker.SAME
            assert child.ask(accident, "", 20) == worker.KILLED, accident
            child.end()
        """
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_many_threads_share_few_workers(open_verifier):
    verifier = open_verifier(seconds=20.0, workers=2)
    found = {}

    def ask(n):
        found[n] = verifier.same(f"{n}x+x", f"{n + 1}x"), verifier.same(f"{n}x", f"{n + 1}x")

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(12), (True, False))
    assert 1 <= len(verifier.processes) <= 2


def test_no_process_is_left_behind(open_verifier):
    verifier = open_verifier(workers=2)
    verifier.same("2x", "x+x")
    (pid,) = verifier.processes
    os.killpg(pid, 0)
    verifier.close()
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)
    assert verifier.same("3x", "2x+x"), "a later question starts anew"


def until(reached, what):
    deadline = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < deadline, what
        os.sched_yield()


def gone(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def dead(pid):
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: reads /proc")
def test_a_worker_killed_while_busy_leaves_no_child_and_nobody_waiting(open_verifier):
    verifier = open_verifier(seconds=2.0, workers=1)
    assert verifier.same("2x", "x+x")
    (pid,) = verifier.processes
    (child,) = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())

    def ticks():
        return int(Path(f"/proc/{child}/stat").read_text().split()[13])

    before, found = ticks(), []
    ask = threading.Thread(target=lambda: found.append(verifier.same(TOWER, "5")), daemon=True)
    ask.start()
    try:
        until(lambda: ticks() > before + 5, "the child is not busy")
        os.kill(pid, signal.SIGKILL)
        ask.join(60)
        assert found == [False], "asked again, of a new worker"
        until(lambda: gone(pid), "the child outlived its worker")
    finally:
        if not gone(pid):
            os.killpg(pid, signal.SIGKILL)
    assert verifier.processes != [pid]


def test_a_worker_killed_while_idle_is_replaced(open_verifier):
    verifier = open_verifier(seconds=20.0, workers=1)
    assert verifier.same("2x", "x+x")
    (pid,) = verifier.processes
    os.kill(pid, signal.SIGKILL)
    dead(pid)
    assert verifier.same("3x", "2x+x")
    assert verifier.processes != [pid]
    until(lambda: gone(pid), "the child outlived its worker")


def test_a_worker_that_hangs_is_replaced(open_verifier, monkeypatch):
    verifier = open_verifier(seconds=20.0, workers=1)
    assert verifier.same("2x", "x+x")
    (pid,) = verifier.processes
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(verifiers, "GRACE", -19.5)
    reply, asked = processes.Worker.ask, []

    def ask(process, line, seconds):
        asked.append(process.process.pid)
        return reply(process, line, seconds if len(asked) == 1 else 40.0)

    monkeypatch.setattr(processes.Worker, "ask", ask)
    assert verifier.same("3x", "2x+x")
    assert asked == [pid, *verifier.processes] and len(asked) == 2
    until(lambda: gone(pid), "the worker that hung is still there")


def test_a_worker_that_is_always_killed_is_an_error_and_no_score(open_verifier, monkeypatch):
    verifier = open_verifier(seconds=20.0, workers=1)
    reply = processes.Worker.ask

    def ask(process, line, seconds):
        os.kill(process.process.pid, signal.SIGKILL)
        dead(process.process.pid)
        return reply(process, line, seconds)

    monkeypatch.setattr(processes.Worker, "ask", ask)
    with pytest.raises(RuntimeError, match="ended from outside"):
        verifier.same("2x", "x+x")
    assert verifier.processes == []
    monkeypatch.undo()
    assert verifier.same("2x", "x+x")


def test_closing_ends_even_what_is_busy(open_verifier):
    verifier = open_verifier(seconds=60.0, workers=1)
    verifier.same("2x", "x+x")
    (pid,) = verifier.processes
    raised = []

    def ask():
        try:
            verifier.same(TOWER, "5")
        except processes.PoolClosed as error:
            raised.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    verifier.close()
    thread.join()
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)
    assert len(raised) <= 1 and verifier.processes == []


def script(text, **options):
    """Run a program without a guard around its main part."""
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(text)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        **options,
    )


def test_a_program_that_is_killed_leaves_nothing_running():
    ended = script(
        """
        import os, signal, threading
        from metis.tasks.math.answers.verifier import Verifier
        verifier = Verifier(seconds=0.5)
        verifier.same("2x", "x+x")
        print(verifier.processes[0], flush=True)
        verifier.take().connection.send(("9^{9^{9^9}}", "5", 0.5))
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    until(lambda: gone(int(ended.stdout)), "the worker outlived its program")


def test_a_program_that_ends_without_closing_is_quiet():
    ended = script(
        """
        from metis.tasks.math import reward
        print(reward("\\\\boxed{2x}", "x+x"), reward("\\\\boxed{3x}", "x+x"))
        """
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1.0 0.0\n", "")


def test_a_fork_starts_workers_of_its_own_and_leaves_those_of_its_parent():
    ended = script(
        """
        import os, sys
        from metis.tasks.math.answers.verifier import Verifier
        verifier = Verifier()
        assert verifier.same("2x", "x+x")
        parent = verifier.processes[0]
        child = os.fork()
        if child == 0:
            assert verifier.same("3x", "2x+x")
            assert verifier.processes[0] != parent
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert verifier.same("4x", "3x+x")
        assert verifier.processes[0] == parent
        """
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_it_works_beside_generation_and_as_a_plain_function(open_verifier):
    verifier = open_verifier(seconds=1.0)
    runner = RewardRunner(timeout=30.0)
    try:
        episodes = []
        for text in ("x+x", TOWER, "2x", "3x"):
            episode = SingleTurn([], lambda answer: float(verifier.same(answer, "2x")))
            episode.reply(text)
            episodes.append(runner.submit(episode))
        assert [runner.result(future).score for future in episodes] == [1.0, 0.0, 1.0, 0.0]
    finally:
        runner.close()
    assert reward("so \\boxed{\\frac{1}{2}}", "0.5", verify=False) == 1.0


@pytest.fixture
def call():
    """Makes this thread serve a call that is late after some seconds."""

    def begin(seconds):
        served = AbandonableCall()
        served.deadline = time.monotonic() + seconds
        current.set(served)
        return served

    yield begin
    current.set(None)


def towers(count):
    return [f"x^{{9^{{9^9}}}}+{number}" for number in range(count)]


def rewarded(verifier, timeout, answers):
    """The rewards of answers, each to `2x` or to the one that is none; an exception where one
    fails."""
    task = MathProblems((), (MathProblem(Prompt("one", "x+x"), [], "2x"),), verifier)
    runner = RewardRunner(timeout)
    try:
        runner.serve(task)
        rewards = []
        for answer in answers:
            episode = task.episode(Prompt("one", "x+x"))
            episode.reply(f"\\boxed{{{answer}}}")
            rewards.append(runner.submit(episode))
        return [runner.result(each) for each in rewards]
    finally:
        runner.close()


def test_many_slow_answers_fail_no_rollout_and_no_honest_answer(open_verifier):
    """They take a multiple of the time limit together."""
    verifier = open_verifier(seconds=1.0, workers=2)
    begin = [threading.Thread(target=verifier.same, args=(each, "5")) for each in towers(2)]
    for thread in begin:
        thread.start()
    for thread in begin:
        thread.join()
    assert len(verifier.processes) == 2
    found = rewarded(verifier, 4.0, [*towers(16), "x+x", *towers(20)[16:], "3x-x", "5x"])
    scores = [getattr(each, "score", each) for each in found]
    assert scores == [0.0] * 16 + [1.0] + [0.0] * 4 + [1.0, 0.0]


def test_no_more_answers_are_scored_at_a_time_than_there_are_workers(open_verifier):
    assert scorers(MathProblems((), (), open_verifier(workers=3))) == 3
    assert scorers(MathProblems((), (), None)) is None


def test_an_answer_whose_limit_is_beyond_the_deadline_is_wrong_in_time(open_verifier):
    verifier = open_verifier(seconds=60.0, workers=1)
    verifier.same("x", "y")
    [found] = rewarded(verifier, 4.0, towers(1))
    assert getattr(found, "score", found) == 0.0


def test_an_answer_that_finds_no_worker_in_time_is_wrong(open_verifier, call):
    verifier = open_verifier(seconds=8.0, workers=1)
    verifier.same("x", "y")
    busy = threading.Thread(target=verifier.same, args=(TOWER, "5"))
    busy.start()
    until(lambda: verifier._idle.empty(), "the worker is not asked")
    for answer, reference in (("x+x", "2x"), (TOWER, "5")):  # also the question that is asked
        started = time.monotonic()
        call(2.0)
        assert not verifier.same(answer, reference)
        assert time.monotonic() - started < 2.0
    busy.join()
    call(60.0)
    assert verifier.same("x+x", "2x"), "what there was no time for is not remembered"


def test_workers_import_no_framework_and_nothing_of_this_package():
    program = f"import runpy, sys; runpy.run_path({worker.__file__!r}); print(*sys.modules)"
    loaded = script(program).stdout.split()
    assert "json" in loaded
    assert not {"metis", "numpy", "torch", "math_verify", "sympy"} & set(loaded)


def test_a_worker_that_does_not_start_says_why(open_verifier, tmp_path, monkeypatch):
    (tmp_path / "math_verify.py").write_text("import antlr4_of_another_version")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    verifier = open_verifier()
    for _ in range(3):
        with pytest.raises(MetisError, match=r"No module named 'antlr4_of.*verify=false"):
            verifier.same("x", "y")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MetisError, match=r"\[math\]', or task\.verify=false"):
        Verifier()
