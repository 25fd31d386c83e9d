"""Identity of evaluated weights: a digest that changes when they are replaced, without a path.

Of large files the sizes and pieces spread over all of them are read, a few megabytes each: enough
to tell apart what training or another download makes of a file.
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

PIECE = 1 << 16
PIECES = 64
SUFFIXES = (".safetensors", ".bin", ".json", ".model", ".txt", ".jinja")
"""Of the files of a model: its weights, its settings and its tokenizer."""


def identity(model: Path, checkpoint: Path | None = None) -> str:
    """Of a model, and of a checkpoint's adapters around it; on the hub, its revision."""
    if checkpoint is not None:
        return _short([identity(model), digest([checkpoint / "adapter_model.safetensors"])])
    if model.parent.name == "snapshots" and re.fullmatch("[0-9a-f]{40}", model.name):
        return model.name
    return digest(path for path in model.iterdir() if path.suffix in SUFFIXES)


def digest(files: Iterable[Path]) -> str:
    """The same for files of the same names and contents, wherever they lie."""
    return _short(part for path in sorted(files) for part in (path.name, _content(path)))


def _content(path: Path) -> str:
    seen = hashlib.sha256()
    with path.open("rb") as file:
        size = path.stat().st_size
        step = max(PIECE, (size - PIECE) // (PIECES - 1))
        for start in (*range(0, size, step), max(0, size - PIECE)):
            file.seek(start)
            seen.update(file.read(PIECE))
    return f"{size} {seen.hexdigest()}"


def _short(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
