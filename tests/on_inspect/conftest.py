"""Tests that need inspect_ai's environment (`make test-inspect`); elsewhere there are none here.

inspect_ai's own warnings are not ours to mend.
"""

from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("inspect_ai") else ["test_*.py"]


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/on_inspect" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("ignore"))
