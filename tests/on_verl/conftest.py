"""Tests that need verl's own environment (`make test-verl`); elsewhere there are none here.

verl warns of engines that are not installed and of its own futures, which is not ours to mend.
"""

import importlib
import warnings
from importlib.util import find_spec

import pytest

from integration.conftest import full_precision  # noqa: F401

collect_ignore_glob = [] if find_spec("verl") else ["test_*.py"]

if find_spec("verl"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("verl.trainer.ppo.v1")


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/on_verl" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("ignore"))
