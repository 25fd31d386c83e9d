"""Single-turn tasksets of verifiers: loaded and scored in the environment that has the library."""

from metis.tasks.verifiers.task import Verifiers, VerifiersTask, build

__all__ = ["Verifiers", "VerifiersTask", "build"]
