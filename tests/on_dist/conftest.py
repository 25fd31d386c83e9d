"""Tests of what is released (`make test-dist`), where the programs that build it are installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("basedpyright") else ["test_*.py"]
