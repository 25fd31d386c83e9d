"""Tests that need TRL's own environment (`make test-trl`); elsewhere there are none here."""

from importlib.util import find_spec

import pytest

from integration.conftest import full_precision, save_tiny  # noqa: F401

collect_ignore_glob = [] if find_spec("trl") else ["test_*.py"]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("tiny"))
