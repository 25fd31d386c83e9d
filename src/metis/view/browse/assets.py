"""The files of the page itself: HTML, CSS, JavaScript."""

from importlib import resources

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
"""Kinds of files that a browser asks for, and what they are."""
LICENCES = (".md", ".txt")
"""Kinds of files that go with them wherever they are copied to."""

_PAGE = resources.files("metis.view.browse") / "page"


def names(*suffixes: str) -> list[str]:
    """The files of these kinds, those of libraries under `vendor/`."""
    own = [path.name for path in _PAGE.iterdir() if path.is_file()]
    vendored = [f"vendor/{path.name}" for path in (_PAGE / "vendor").iterdir()]
    return sorted(name for name in (*own, *vendored) if name.endswith(suffixes))


FILES = {name: TYPES[f".{name.rpartition('.')[2]}"] for name in names(*TYPES)}
"""Files that a browser asks for, and what they are."""


def read(name: str) -> bytes:
    """A file of the page."""
    return (_PAGE / name).read_bytes()
