"""Readouts: regressions from the policy's states to what such prompts were worth."""

from metis.curricula.readout.labels import Readout, States, require_depths
from metis.curricula.readout.models import Kind, regression

__all__ = ["Kind", "Readout", "States", "regression", "require_depths"]
