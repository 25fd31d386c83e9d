"""`metis view`: its options, and the runs they name."""

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from metis.commands import Commands, add_command

HELP = """\
Opens the logs of runs in a page: every step, why each prompt was chosen, what was predicted, what
the policy wrote and what it earned. Filters by category, outcome, reason and text; two runs stand
side by side. The page is served to this machine alone, until Ctrl-C, and follows a run that still
trains when it is loaded again.

  metis view runs/a                     http://127.0.0.1:8400/
  metis view runs/a runs/b --port 0     two runs, on any free port
  metis view cmp                        all runs of a comparison
  metis view runs/a --bundle page       a folder instead, which opens without a server

`rollouts.jsonl` has one answer of each of the first eight groups of a step; train with answers=8 to
see eight of every group.
"""


def add(commands: Commands) -> None:
    """Add the command to the parser's."""
    parser = add_command(commands, "view", run, "browse judgments and rollouts in a page", HELP)
    option = parser.add_argument
    option("runs", nargs="+", type=Path, metavar="RUN", help="run folder, or that of a comparison")
    option("--port", type=int, metavar="N", help="port to serve on (8400); 0 is any that is free")
    option("--bundle", type=Path, metavar="DIR", help="write the page into a folder instead")


def run(chosen: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C, or write it into a folder."""
    from metis.errors import MetisError
    from metis.run.recorded import read_runs
    from metis.view.browse.data import write_bundle
    from metis.view.browse.server import PORT, Server

    if chosen.bundle is not None and chosen.port is not None:
        raise MetisError("--port goes with a server; a bundle needs none")
    runs = read_runs(list(_folders(chosen.runs)))
    if chosen.bundle is not None:
        print(f"page: {write_bundle(runs, chosen.bundle)}")
        return 0
    with Server(runs, PORT if chosen.port is None else chosen.port) as server:
        print(f"{server.url}   (Ctrl-C ends)", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0


def _folders(named: Sequence[Path]) -> Iterator[Path]:
    """The run folders that are named; of a comparison, all it has that can be read."""
    from metis.comparisons.comparison import is_comparison

    for folder in named:
        if is_comparison(folder):
            yield from _readable(folder)
        else:
            yield folder


def _readable(comparison: Path) -> list[Path]:
    from metis.errors import MetisError
    from metis.run.recorded import read_run

    runs = []
    for folder in sorted(path.parent for path in comparison.glob("*/config.json")):
        try:
            read_run(folder)
            runs.append(folder)
        except MetisError as error:
            print(f"metis: left out: {error}", file=sys.stderr)
    if not runs:
        raise MetisError(
            f"{str(comparison)!r} has no runs that can be read: `metis compare` trains"
        )
    return runs
