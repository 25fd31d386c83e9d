"""In CI a test may be skipped for want of a GPU or of the real data, and for nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest, skips

@pytest.mark.skipif(True, reason=skips.GPU)
def test_marked():
    pass

def test_inside():
    pytest.skip(f"{skips.DATA} (a.jsonl)")

def test_run():
    pass
"""
OTHERS = """
import pytest

@pytest.fixture
def browser():
    pytest.skip("there is no browser")

@pytest.mark.skip
def test_marked(): pass

@pytest.mark.skip(reason="there is no header")
def test_marked_with_a_reason(): pass

def test_inside(): pytest.skip("there is no compiler")

def test_fixture(browser): pass

def test_package(): pytest.importorskip("there_is_none")
"""


def outcome(folder, *words, ci="true"):
    """The exit code and the output of a run of its own, with the rules of these tests alone."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "skips", "-p", "no:cacheprovider", "-q", *words],
        cwd=folder,
        env={**os.environ, "CI": ci, "PYTHONPATH": str(ROOT / "tests"), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    )
    return run.returncode, run.stdout


@pytest.mark.parametrize("words", [(), ("--numprocesses=2",)], ids=["alone", "spread"])
def test_ci_fails_for_what_is_skipped_for_another_reason(tmp_path, words):
    (tmp_path / "test_known.py").write_text(TESTS)
    assert outcome(tmp_path, *words)[0] == 0
    (tmp_path / "test_others.py").write_text(OTHERS)
    (tmp_path / "test_module.py").write_text("import pytest\npytest.importorskip('there_is_none')")
    code, printed = outcome(tmp_path, *words)
    told = printed.split("skipped for want of more than a GPU")[1].split("short test summary")[0]
    assert code == 1 and "test_known" not in told and "test_module.py" in told
    assert told.count("test_others.py::") == OTHERS.count("def test_") == 5


def test_elsewhere_skips_are_skips(tmp_path):
    (tmp_path / "test_others.py").write_text(OTHERS)
    assert outcome(tmp_path, ci="")[0] == 0


def test_the_tests_of_other_environments_have_the_rule(tmp_path):
    """They share the conftest.py at the top, and only that."""
    for name in ("conftest.py", "skips.py"):
        (tmp_path / name).symlink_to(ROOT / "tests" / name)
    (tmp_path / "on_verl").mkdir()
    (tmp_path / "on_verl/test_others.py").write_text(OTHERS)
    words = ("-p", "no:skips", f"--rootdir={tmp_path}", "--override-ini=pythonpath=.", "on_verl")
    code, printed = outcome(tmp_path, *words)
    assert code == 1 and "there is no browser" in printed
