"""Checkers: compiled once, run in the sandbox, trusted no more than a program."""

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from metis.data import fetched
from metis.errors import MetisError
from metis.tasks.code import checkers
from metis.tasks.sandbox import BadChecker, Checker, Io, run
from sandboxed import needs_bubblewrap

pytestmark = [
    needs_bubblewrap,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++: apt-get install g++"),
]

HEADER = Path(os.environ.get("METIS_TESTLIB") or fetched.home() / "checkers" / "testlib.h")
SUM = """
#include <cstdio>
int main(int count, char** names) {
    FILE* in = fopen(names[1], "r");
    FILE* out = fopen(names[2], "r");
    FILE* answer = fopen(names[3], "r");
    int n, a, b, c;
    if (fscanf(answer, "%d", &c) != 1) { fprintf(stderr, "no answer"); return 3; }
    if (fscanf(in, "%d", &n) != 1 || fscanf(out, "%d %d", &a, &b) != 2) return 2;
    if (a == 99) return *(volatile int*)0;
    for (volatile int busy = a; busy == 98;) {}
    fprintf(stderr, "%d + %d", a, b);
    return a + b == n ? 0 : 1;
}
"""
"""Two numbers with the sum of the input."""
TESTLIB = """
#include "testlib.h"
int main(int argc, char** argv) {
    registerTestlibCmd(argc, argv);
    int n = inf.readInt(), a = ouf.readInt(1, n), b = ouf.readInt(1, n);
    if (a + b != n) quitf(_wa, "%d + %d is not %d", a, b, n);
    quitf(_ok, "fine");
}
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("METIS_HOME", str(tmp_path))
    checkers.testlib.cache_clear()
    yield tmp_path
    checkers.testlib.cache_clear()


def result(program, source=SUM, stdin="5\n", expected="2 3"):
    (found,) = run(program, [Io(stdin, expected, Checker(source))]).results
    return found


def test_any_output_that_the_checker_accepts_is_right(home):
    assert result("print(1, 4)").kind == "passed"
    assert result("print(1, 1)").kind == "wrong"
    assert result("print(1, 1)").detail == "1 + 1"
    assert result("print('x')").kind == "wrong"
    assert result("").kind == "wrong"
    assert result("print('\\0' * 1000)").kind == "wrong"
    assert len(list((home / "checkers").iterdir())) == 1


def test_an_output_that_the_checker_takes_too_long_for_is_wrong_in_time():
    assert result("print(1, 4)").passed
    start = time.monotonic()
    test = Io("5\n", "2 3", Checker(SUM))
    (late, unrun) = run("print(98, 4)", [test] * 2, seconds=3.0).results
    assert (late.kind, unrun.kind) == ("wrong", "timeout")
    assert time.monotonic() - start < checkers.CHECKING.wall_seconds


def test_a_program_that_fails_is_not_shown_to_the_checker():
    assert result("print(1, 4); raise ValueError").kind == "error"


def test_a_checker_is_compiled_once(monkeypatch):
    compiled = []
    compile = checkers._compile
    monkeypatch.setattr(
        checkers, "_compile", lambda *given: compiled.append(given) or compile(*given)
    )
    with ThreadPoolExecutor(4) as threads:
        kinds = threads.map(lambda n: result(f"print({n}, {5 - n})").kind, range(4))
        assert list(kinds) == ["passed"] * 4
    assert len(compiled) == 1


def test_a_crash_on_the_output_counts_against_it():
    found = result("print(99, 1)")
    assert found.kind == "wrong" and "the checker failed" in found.detail


def test_an_answer_that_the_checker_refuses_is_the_data_s_fault():
    with pytest.raises(BadChecker, match=r"refuses the expected output \(no answer\)"):
        result("print(1, 4)", expected="x")


def test_a_checker_that_is_no_program_is_refused(home):
    with pytest.raises(BadChecker, match="could not be compiled"):
        result("print(1, 4)", source="int main( {")
    assert list((home / "checkers").iterdir()) == []


def test_a_checker_sees_no_file_of_the_host(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text('"escaped"')
    with pytest.raises(BadChecker, match="No such file"):
        result("print(1, 4)", source=f'#include "{secret}"\nint main() {{}}')


def test_a_checker_without_end_is_ended(monkeypatch):
    monkeypatch.setattr(checkers, "CHECKING", checkers.Limits(cpu_seconds=1, wall_seconds=1))
    with pytest.raises(BadChecker, match=r"ran out of time|SIGXCPU"):
        result("print(1, 4)", source="int main() { for (;;); }")


@pytest.mark.skipif(not HEADER.is_file(), reason=f"needs {HEADER}: make test fetches it")
def test_testlib_says_why_an_output_is_wrong(monkeypatch):
    monkeypatch.setenv("METIS_TESTLIB", str(HEADER))
    assert result("print(1, 4)", source=TESTLIB).kind == "passed"
    wrong = result("print(1, 1)", source=TESTLIB)
    assert wrong.kind == "wrong" and "1 + 1 is not 5" in wrong.detail
    outside = result("print(-1, 6)", source=TESTLIB)
    assert outside.kind == "wrong" and "-1" in outside.detail
    with pytest.raises(BadChecker, match="refuses the expected output"):
        result("print(1, 4)", source=TESTLIB, stdin="x\n")


def test_a_header_that_is_not_there_is_told_of(monkeypatch, tmp_path):
    monkeypatch.setenv("METIS_TESTLIB", str(tmp_path / "absent.h"))
    with pytest.raises(MetisError, match=r"METIS_TESTLIB = .*absent"):
        result("print(1, 4)", source=TESTLIB)
