"""Programs in the sandbox: what passes, what fails and how, and where no program is run."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from metis.errors import MetisError
from metis.tasks import sandbox
from metis.tasks.sandbox import Asserts, Call, Io, Limits, Result, Script, run
from sandboxed import needs_bubblewrap

pytestmark = needs_bubblewrap

QUICK = Limits(cpu_seconds=5, wall_seconds=20, memory_mb=256, processes=8, file_mb=4, output_kb=64)
DOUBLE = "print(2 * int(input()))"
F = "def f(x, times=2): return x * times"
UNITTEST = """
import unittest
from unittest.mock import patch
class TestCases(unittest.TestCase):
    def setUp(self):
        self.x = 3
    def test_right(self):
        self.assertEqual(f(self.x), 6)
    def test_wrong(self):
        self.assertEqual(f(self.x), 7)
    def test_patched(self):
        with patch("__test__.f", return_value=1):
            self.assertEqual(f(self.x), 1)
    def test_error(self):
        f(None)
"""


def kinds(program, *tests, limits=QUICK):
    return [result.kind for result in run(program, tests, limits).results]


def test_output_is_compared_with_what_is_expected():
    tests = [Io("3\n", "6\n"), Io("4", " 8 "), Io("5", "11")]
    outcome = run(DOUBLE, tests, QUICK)
    assert [result.kind for result in outcome.results] == ["passed", "passed", "wrong"]
    assert outcome.passed == 2 and outcome.total == 3 and outcome.fraction == pytest.approx(2 / 3)
    assert outcome.kinds == {"passed": 2, "wrong": 1}
    assert all(result.seconds > 0 and not result.in_process for result in outcome.results)


def test_a_program_without_tests_earns_nothing():
    assert run(DOUBLE, [], QUICK).fraction == 0.0


def test_a_program_is_main_and_has_its_standard_library():
    program = """
import sys, json, collections, heapq, math, threading
def main():
    threading.stack_size(64 << 20)
    thread = threading.Thread(target=lambda: print(sum(map(int, sys.stdin.read().split()))))
    thread.start()
if __name__ == "__main__":
    main()
"""
    assert kinds(program, Io("1 2\n3\n", "6")) == ["passed"]


def test_standard_input_may_be_read_in_any_way():
    ways = ["open(0).read()", "sys.stdin.buffer.read().decode()", "os.read(0, 100).decode()"]
    for way in ways:
        assert kinds(f"import os, sys; print({way}.strip())", Io("a\n", "a")) == ["passed"], way


def test_large_inputs_and_outputs_pass():
    text = "7 " * 200_000
    large = Limits(output_kb=1024)
    assert kinds("print(input())", Io(text, text), limits=large) == ["passed"]


def test_exceptions_are_told_with_their_line():
    (result,) = run("x = 1\nx / 0", [Io("", "")], QUICK).results
    assert result.kind == "error"
    assert result.detail == "ZeroDivisionError: division by zero (line 2)"


def test_functions_are_called_from_another_process():
    tests = [Call("f", (3,), 6), Call("f", ([1],), (1, 1)), Call("f", (3,), 7), Call("f", (), 0)]
    assert kinds(F, *tests) == ["passed", "passed", "wrong", "error"]


def test_methods_are_called_on_an_instance():
    program = "class Solution:\n    def half(self, x): return x / 2"
    assert kinds(program, Call("Solution.half", (1,), 0.5)) == ["passed"]


def test_main_is_not_run_for_a_function():
    program = F + "\nif __name__ == '__main__': raise ValueError"
    assert kinds(program, Call("f", (3,), 6)) == ["passed"]


def test_asserts_call_the_program_from_another_sandbox():
    right = "assert f(2) == 4\nassert [f(x) for x in (1, 2)] == [2, 4]\nassert f(1, times=3) == 3"
    raising = "try: f(None)\nexcept TypeError: pass\nelse: assert False"
    tests = [Asserts(code, ("f",)) for code in (right, raising, "assert f(2) == 5", "f(None)")]
    results = run(F, tests, QUICK).results
    assert [result.kind for result in results] == ["passed", "passed", "wrong", "error"]
    assert "TypeError" in results[3].detail and not any(result.in_process for result in results)


def test_state_lasts_through_the_asserts_of_one_test():
    program = "seen = []\ndef f(x): seen.append(x); return len(seen)"
    tests = [Asserts("assert f(0) == 1\nassert f(0) == 2", ("f",))] * 2
    assert kinds(program, *tests) == ["passed", "passed"]


PATCHING = """
import json, unittest
from unittest.mock import patch
class TestCases(unittest.TestCase):
    def test_patched(self):
        with patch("json.loads", return_value={"a": 1}), patch("builtins.open") as opened:
            self.assertEqual(read("x"), {"a": 1})
        opened.assert_called_once_with("x")
    def test_same_module(self):
        self.assertIs(json, used)
        with self.assertRaises(json.JSONDecodeError):
            parsed("{")
        self.assertEqual(parsed("[1]"), [1])
    def test_globals(self):
        self.assertEqual(__name__, "__test__")
        self.assertTrue(callable(__builtins__["len"] if isinstance(__builtins__, dict) else len))
"""
READER = """
import json
used = json
def read(path):
    with open(path) as file:
        return json.loads(file)
def parsed(text):
    return json.loads(text)
"""


@pytest.mark.parametrize("method", ["patched", "same_module", "globals"])
def test_a_script_may_patch_what_the_program_calls(method):
    assert kinds(READER, Script(PATCHING, f"TestCases.test_{method}")) == ["passed"]


def test_a_script_shares_the_process_and_its_result_says_so():
    tests = [Script("assert f(2) == 4"), Script("assert f(2) == 5"), Script("f(None)")]
    results = run(F, tests, QUICK).results
    assert [result.kind for result in results] == ["passed", "wrong", "error"]
    assert all(result.in_process for result in results)


@pytest.mark.parametrize(
    ("method", "kind"),
    [("right", "passed"), ("wrong", "wrong"), ("patched", "passed"), ("error", "error")],
)
def test_methods_of_a_test_case_are_tests(method, kind):
    assert kinds(F, Script(UNITTEST, f"TestCases.test_{method}")) == [kind]


def test_arguments_that_are_no_plain_data_are_refused_before_they_are_passed():
    with pytest.raises(MetisError, match="Call: object is no plain data; make the test a Script"):
        run(F, [Call("f", (object(),), 1)], QUICK)


def test_tests_do_not_see_each_other():
    program = "import os\nprint(os.listdir('.'))\nopen('x', 'w').write('x')"
    assert kinds(program, Io("", "[]"), Io("", "[]")) == ["passed", "passed"]


def test_a_test_goes_on_after_one_that_spoilt_the_sandbox():
    program = """
import os
if input() == "deep":
    for _ in range(2000):
        os.mkdir("x")
        os.chdir("x")
print("done")
"""
    assert kinds(program, Io("deep", "done"), Io("flat", "done")) == ["passed", "passed"]


def test_hashes_and_so_the_order_of_sets_are_the_same_each_time():
    program = "def f(): return [hash('x'), list({str(x) for x in range(100)})]"
    tests = [Asserts("assert f() == [hash('x'), list({str(x) for x in range(100)})]", ("f",))]
    assert kinds(program, *tests) == ["passed"]


def test_packages_of_a_folder_can_be_imported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("libraries")
    for path in (folder, *folder.parents):
        if path != path.parent and path.stat().st_uid == os.geteuid():
            path.chmod(path.stat().st_mode | 0o055)
    (folder / "answer.py").write_text("value = 42")
    outcome = run("import answer; print(answer.value)", [Io("", "42")], QUICK, [folder])
    assert outcome.passed == 1
    assert kinds("import answer; print(answer.value)", Io("", "42")) == ["error"]


def test_a_folder_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(MetisError, match="cannot read"):
        run(F, [Call("f", (1,), 2)], QUICK, [tmp_path / "absent"])


def test_the_rest_is_not_run_after_so_many_timeouts():
    short = Limits(wall_seconds=2, timeouts=2)
    program = "import time\nif input().strip(): time.sleep(60)"
    results = run(program, [Io(text, "") for text in ("x", " ", "x", " ", " ")], short).results
    assert [result.kind for result in results] == ["timeout", "passed", *["timeout"] * 3]
    assert "not run" in results[3].detail and results[4].seconds == 0


def test_limits_that_cannot_be_held_are_refused():
    with pytest.raises(MetisError, match=r"limits\.wall_seconds = 0"):
        Limits(wall_seconds=0)
    with pytest.raises(MetisError, match=r"limits\.memory_mb = 1"):
        Limits(memory_mb=1)


def test_descriptors_are_closed_whatever_happened():
    before = len(os.listdir("/proc/self/fd"))
    for program in ("", "while True: pass", "x = " + "(" * 10_000, "import os; os.close(1)"):
        run(program, [Io("", ""), Asserts("", ())], Limits(wall_seconds=0.2))
    assert len(os.listdir("/proc/self/fd")) == before


def test_processes_of_the_standard_library_work():
    program = """
import multiprocessing, subprocess
with multiprocessing.Pool(2) as pool:
    print(pool.map(abs, [-1, 2]))
print(subprocess.run(["echo", "done"], capture_output=True, text=True).stdout)
"""
    assert kinds(program, Io("", "[1, 2] done")) == ["passed"]


def test_events_shared_values_and_connections_of_the_standard_library_work():
    program = """
import asyncio, multiprocessing, subprocess

def add(value, end):
    with value.get_lock():
        value.value += 1
    end.send("sent")

async def echo(reader, writer):
    writer.write(await reader.readline())
    writer.close()

async def main():
    child = await asyncio.create_subprocess_exec("echo", "child", stdout=subprocess.PIPE)
    print((await child.communicate())[0].decode())
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"served\\n")
    print((await reader.readline()).decode())

value, (ours, theirs) = multiprocessing.Value("i", 1), multiprocessing.Pipe()
process = multiprocessing.Process(target=add, args=(value, theirs))
process.start()
print(ours.recv())
process.join()
print(value.value)
with multiprocessing.Manager() as manager:
    print(manager.list([3]))
asyncio.run(main())
print(subprocess.run("echo x | tr x y", shell=True, capture_output=True, text=True).stdout)
"""
    assert kinds(program, Io("", "sent 2 [3] child served y")) == ["passed"]


def test_many_programs_run_at_a_time():
    def fraction(number):
        return run(f"print(int(input()) * {number})", [Io("3", str(3 * number))], QUICK).fraction

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(fraction, range(24))) == [1.0] * 24


def test_a_hostile_program_does_not_change_what_its_neighbours_earn():
    bombs = ["import os\nwhile True:\n try: os.fork()\n except OSError: pass", "while True: pass"]
    short = Limits(cpu_seconds=1, wall_seconds=1, memory_mb=64, processes=8)
    threads = [threading.Thread(target=run, args=(bomb, [Io("", "")] * 2, short)) for bomb in bombs]
    for thread in threads:
        thread.start()
    assert run(DOUBLE, [Io(str(x), str(2 * x)) for x in range(20)]).fraction == 1.0
    for thread in threads:
        thread.join()


def test_an_ordinary_user_has_the_same_sandbox():
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(12345)
                os.setuid(12345)
            sandbox.ready.cache_clear()
            sandbox.ready()
            bomb = run("import os\nwhile True: os.fork()", [Io("", "")], QUICK).results[0].kind
            os.write(writer, f"{run(DOUBLE, [Io('3', '6')], QUICK).passed} {bomb}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as told:
        assert told.read() == "1 blocked"


@pytest.fixture
def unprobed():
    sandbox.ready.cache_clear()
    yield
    sandbox.ready.cache_clear()


def test_without_bubblewrap_nothing_runs_and_the_command_that_installs_it_is_told(
    unprobed, monkeypatch, tmp_path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(sandbox.SandboxMissing, match="bubblewrap is not installed"):
        run(DOUBLE, [Io("3", "6")])
    tool = tmp_path / "apt-get"
    tool.touch(0o755)
    with pytest.raises(sandbox.SandboxMissing, match="apt-get install -y bubblewrap"):
        run(DOUBLE, [Io("3", "6")])


def test_a_bubblewrap_that_does_not_work_is_told_with_its_own_words(
    unprobed, monkeypatch, tmp_path
):
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: Unknown option --disable-userns' >&2\nexit 1\n")
    for path in (broken, tmp_path):
        path.chmod(0o755)
    monkeypatch.setattr("metis.tasks.code.bubblewrap.identity", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(sandbox.SandboxMissing, match=r"Unknown option.*0\.8 or newer"):
        run(DOUBLE, [Io("3", "6")])


def test_a_sandbox_that_does_not_limit_processes_is_refused(unprobed, monkeypatch):
    monkeypatch.setattr("metis.tasks.code.sandbox.FORKS", "print('no limit')")
    with pytest.raises(sandbox.SandboxMissing, match="does not limit processes"):
        run(DOUBLE, [Io("3", "6")])


def test_a_process_that_ignores_its_children_is_refused(unprobed):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(sandbox.SandboxMissing, match="ignores SIGCHLD"):
            run(DOUBLE, [Io("3", "6")])
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_result_is_passed_or_not():
    assert Result("passed").passed and not Result("wrong").passed


def test_tests_that_are_not_passed_within_the_time_of_all_are_timeouts():
    program = "import time\nif input() == 'x': time.sleep(60)\nprint('done')"
    start = time.monotonic()
    tests = [Io(text, "done") for text in ("y", "x", "y")]
    results = run(program, tests, QUICK, seconds=2.0).results
    assert [result.kind for result in results] == ["passed", "timeout", "timeout"]
    assert time.monotonic() - start < QUICK.wall_seconds and results[2].seconds == 0


def test_a_system_out_of_memory_ends_programs_first():
    program = "print(open('/proc/self/oom_score_adj').read())"
    assert kinds(program, Io("", "1000")) == ["passed"]


def test_files_are_copied_though_the_fast_way_is_refused():
    program = """
import asyncio, os, shutil, socket
with open("x", "w") as file: file.write("copied " * 1000)
shutil.copyfile("x", "y")
os.mkdir("z")
shutil.copytree("z", "zz")
os.system("cp x w; cat w > v")
print(*(os.path.getsize(name) for name in "ywv"))
ours, theirs = socket.socketpair()
with open("x", "rb") as file: print(ours.sendfile(file))
"""
    assert kinds(program, Io("", "7000 7000 7000 7000")) == ["passed"]


def test_a_large_set_is_compared_soon():
    tests = [Call("f", (400_000,), set(range(400_000))), Call("f", (400_000,), {1})]
    start = time.process_time()
    program = "def f(x): return set(range(x))"
    assert [result.kind for result in run(program, tests, Limits()).results] == ["passed", "wrong"]
    assert time.process_time() - start < 6
