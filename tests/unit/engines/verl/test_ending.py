"""The reason of an end on verl: an error's, that of a process that was killed, or none."""

import subprocess
import sys

import pytest

from metis import MetisError
from metis.engines.verl.ending import reason, told

KILLED = """
import os, sys
from pathlib import Path
from metis.engines.verl.ending import told
with told(Path(sys.argv[1])):
    os._exit(1)
"""


def test_a_process_that_is_killed_leaves_that_as_the_reason(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert "the same command resumes" in reason(tmp_path)


def test_an_error_of_metis_is_the_reason_and_others_have_a_traceback(tmp_path):
    with pytest.raises(MetisError), told(tmp_path):
        raise MetisError("the folder is not shared")
    assert reason(tmp_path) == "the folder is not shared"
    with pytest.raises(ValueError, match="other"), told(tmp_path):
        raise ValueError("other")
    assert reason(tmp_path) is None
    with told(tmp_path):
        pass
    assert reason(tmp_path) is None
