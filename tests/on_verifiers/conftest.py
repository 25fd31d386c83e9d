"""Tests of tasksets (`make test-verifiers`); elsewhere there are none here.

They run in the environment of the other tests; verifiers and the tasksets are in one of their own,
whose Python METIS_VERIFIERS names.
"""

import os

from integration.conftest import full_precision, tiny  # noqa: F401

collect_ignore_glob = [] if os.environ.get("METIS_VERIFIERS") else ["test_*.py"]
