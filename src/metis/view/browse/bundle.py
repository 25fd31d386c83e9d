"""The page written out as a folder that opens without a server."""

import sys
from collections.abc import Sequence
from pathlib import Path

from metis import files
from metis.errors import Damaged, MetisError, require_folder
from metis.run.recorded import Recorded
from metis.view.browse import data
from metis.view.browse.data import document


def write(runs: Sequence[Recorded], out: Path) -> Path:
    """Write the page of runs into a folder; `index.html`, which opens it, comes last.

    Of a damaged run the page says what is wrong; that there is no other is an error.
    """
    require_folder(out)
    try:
        for name in (*data.FILES, *data.LICENCES):
            if name != "index.html":
                _write(out / name, data.read(name))
        damaged = []
        for number, run in enumerate(runs):
            try:
                content = data.script("metis.add", number, document(run))
            except Damaged as error:
                damaged.append(error)
                content = data.script("metis.fail", number, f"{error.what}, is damaged")
            _write(out / "data" / f"{number}.js", content)
        if damaged and len(damaged) == len(runs):
            raise damaged[0]
        for wrong in damaged:
            print(f"metis: {wrong}", file=sys.stderr)
        _write(out / data.RUNS, data.listing(runs))
        _write(out / "index.html", data.read("index.html"))
    except OSError as error:
        raise MetisError(
            f"--bundle {str(out)!r} cannot be written ({error.strerror or error}): name another"
        ) from None
    return out / "index.html"


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.atomic(path) as file:
        file.write(content)
