"""The page written out as a folder that opens without a server."""

from collections.abc import Sequence
from pathlib import Path

from metis import files
from metis.errors import MetisError, require_folder
from metis.report.curves import Recorded
from metis.view.browse import assets
from metis.view.browse.data import document


def write(runs: Sequence[Recorded], out: Path) -> Path:
    """Write the page of runs into a folder; `index.html`, which opens it, comes last."""
    require_folder(out)
    try:
        for name in (*assets.FILES, *assets.LICENCES):
            if name != "index.html":
                _write(out / name, assets.read(name))
        for number, run in enumerate(runs):
            content = assets.script("metis.add", number, document(run))
            _write(out / "data" / f"{number}.js", content)
        _write(out / assets.RUNS, assets.listing(runs))
        _write(out / "index.html", assets.read("index.html"))
    except OSError as error:
        raise MetisError(
            f"--bundle {str(out)!r} cannot be written ({error.strerror or error}): name another"
        ) from None
    return out / "index.html"


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.atomic(path) as file:
        file.write(content)
