"""The files of the page: its own, and the libraries it is made with, kept beside it."""

import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

from metis.run.recorded import Recorded

FILES = {
    "index.html": "text/html; charset=utf-8",
    "view.css": "text/css; charset=utf-8",
    "filters.js": "text/javascript; charset=utf-8",
    "parts.js": "text/javascript; charset=utf-8",
    "detail.js": "text/javascript; charset=utf-8",
    "view.js": "text/javascript; charset=utf-8",
    "vendor/pico.css": "text/css; charset=utf-8",
    "vendor/preact.js": "text/javascript; charset=utf-8",
    "vendor/hooks.js": "text/javascript; charset=utf-8",
    "vendor/htm.js": "text/javascript; charset=utf-8",
}
"""Files that a browser asks for, and what they are."""

LICENCES = (
    "vendor/VENDORED.md",
    "vendor/LICENSE-preact.txt",
    "vendor/LICENSE-htm.txt",
    "vendor/LICENSE-pico.txt",
)
"""Files that go with them wherever they are copied to."""

SCRIPT = "text/javascript; charset=utf-8"
RUNS = "runs.js"


def read(name: str) -> bytes:
    """A file of the page."""
    return resources.files("metis.view.browse").joinpath("page", name).read_bytes()


def listing(runs: Sequence[Recorded]) -> bytes:
    """The script that names the runs."""
    return script("metis.list", [run.label for run in runs])


def script(function: str, *values: Any) -> bytes:
    """A script that hands values to a function of the page.

    A script, since a page that is opened from a folder may load no other data.
    """
    return f"{function}({', '.join(json.dumps(value) for value in values)});\n".encode()
