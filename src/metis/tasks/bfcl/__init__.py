"""Multi-turn function calling against simulated APIs, with continuous rewards (BFCL v3)."""

from metis.tasks.bfcl.episode import Episode
from metis.tasks.bfcl.task import Bfcl, build

__all__ = ["Bfcl", "Episode", "build"]
