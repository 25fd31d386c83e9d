"""Multi-turn function calling of BFCL: simulated APIs, continuous rewards."""

from metis.tasks.bfcl.episode import Episode
from metis.tasks.bfcl.task import Bfcl, build

__all__ = ["Bfcl", "Episode", "build"]
