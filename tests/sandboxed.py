"""Tests that run programs are skipped, with the command that mends it, where no sandbox works."""

import pytest

from metis.tasks.sandbox import SandboxMissing, ready


def _missing():
    try:
        ready()
    except SandboxMissing as error:
        return str(error)
    return ""


needs_bubblewrap = pytest.mark.skipif(bool(_missing()), reason=f"needs a sandbox: {_missing()}")
