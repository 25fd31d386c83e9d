"""Errors of files that are read into a model: damaged ones are named."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from pickle import UnpicklingError

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

from metis.errors import first_line

LOADING_ERRORS = OSError, ValueError, KeyError, RuntimeError, SafetensorError, StrictDataclassError
"""Errors of loading a model folder that is incomplete or damaged."""


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """A damaged file is an OSError that names it, whatever its format makes of it."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (*LOADING_ERRORS, EOFError, UnpicklingError) as error:
        raise OSError(f"{str(path)!r} cannot be read: {first_line(error)}") from None
