"""Tests of minutes (`make test-notebooks`); elsewhere there are none here."""

import os

from integration.conftest import tiny  # noqa: F401

collect_ignore_glob = [] if os.environ.get("METIS_NOTEBOOKS") else ["test_*.py"]
