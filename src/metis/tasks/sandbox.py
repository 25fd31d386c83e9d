"""The public name of the sandbox for programs: `metis.tasks.sandbox.run`."""

from metis.tasks.code.sandbox import *  # noqa: F403
from metis.tasks.code.sandbox import __all__ as __all__
