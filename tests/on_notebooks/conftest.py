"""Tests of minutes (`make test-notebooks`); elsewhere there are none here."""

import os

collect_ignore_glob = [] if os.environ.get("METIS_NOTEBOOKS") else ["test_*.py"]
