"""Errors of loading model files, which name the file."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from pickle import UnpicklingError

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

from metis.errors import first_line

LOADING_ERRORS = OSError, ValueError, KeyError, RuntimeError, SafetensorError, StrictDataclassError
"""What loading an incomplete or corrupted model folder may raise."""


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn any error of reading a corrupted file into an OSError that names it."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (*LOADING_ERRORS, EOFError, UnpicklingError) as error:
        raise OSError(f"{str(path)!r} cannot be read: {first_line(error)}") from None
