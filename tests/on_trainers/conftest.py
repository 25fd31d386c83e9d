"""Tests that need ART and tinker-cookbook (`make test-trainers`); elsewhere there are none here."""

import os
from importlib.util import find_spec

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # ART's import would ask the network for it

installed = find_spec("art") and find_spec("tinker_cookbook")
collect_ignore_glob = [] if installed else ["test_*.py"]
