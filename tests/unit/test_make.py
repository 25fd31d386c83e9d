"""`make quickstart` installs what it needs and no more; the tests and linters need the rest."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
for name in sys.argv[1:]:
    sys.modules[name] = None
from metis import config, loop, report, view
from metis.engines import model_files
from metis.engines.local import engine
from metis.report import figures
assert config.load(None, []).engine_name == "local"
"""


@pytest.mark.parametrize(
    ("target", "extras"),
    [
        ("quickstart", [".[local,report]"]),
        ("test", [".[local,report]", ".[local,report,math,gym,dev]"]),
        ("check", [".[local,report]", ".[local,report,math,gym,dev]"]),
        ("test-trl", ["tests/on_trl/requirements.txt", "."]),
    ],
)
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_a_target_installs_what_it_needs_after_the_pinned_torch(target, extras):
    command = ["make", "--always-make", "--dry-run", target]
    printed = subprocess.check_output(command, cwd=ROOT, text=True)
    installs = [line.split()[-1].strip("'") for line in printed.splitlines() if "install" in line]
    assert installs[0].startswith("torch==") and installs[1:] == extras


def test_the_quickstart_needs_no_other_extra():
    for package in ("torch", "transformers", "matplotlib"):
        pytest.importorskip(package)
    others = ["math_verify", "pyarrow", "reasoning_gym", "hypothesis", "pytest"]
    subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM, *others], check=True)
