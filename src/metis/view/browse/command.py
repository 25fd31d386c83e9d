"""`metis view`: its options, and the folders they name."""

import argparse
import contextlib
import secrets
from pathlib import Path

from metis.commands import Commands, add_command

HELP = """\
Opens runs, surveys, evaluations and comparisons in a page, also while they run: every step with
the prompts that were chosen and passed over, every prompt with its history, every answer with its
turns; charts of the steps, and a search over all answers. The page is served to this machine
alone, until Ctrl-C, and follows what still runs.

  metis view runs/a                     http://127.0.0.1:8400/
  metis view runs/a runs/b --port 0     two runs, on any free port
  metis view cmp                        a comparison with all of its runs
  metis view surveys/a evals/b          a survey and an evaluation
  metis view runs/a --token             for a machine that others use too
  metis view runs/a --bundle page       a folder instead, which opens without a server

An index of the answers is kept in the user's cache folder (METIS_HOME, or XDG_CACHE_HOME/metis).
"""


def add(commands: Commands) -> None:
    """Add the command to the parser's."""
    summary = "browse steps, prompts and answers in a page"
    parser = add_command(commands, "view", run, summary, HELP)
    option = parser.add_argument
    named = "folder of a run, a survey, an evaluation or a comparison"
    option("folders", nargs="+", type=Path, metavar="FOLDER", help=named)
    option("--port", type=int, metavar="N", help="port to serve on (8400); 0 is any that is free")
    needed = "answer only to those who have the address that is printed"
    option("--token", action="store_true", help=needed)
    option("--bundle", type=Path, metavar="DIR", help="write the page into a folder instead")


def run(chosen: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C, or write it into a folder."""
    from metis.errors import MetisError
    from metis.view.browse.bundle import write_bundle
    from metis.view.browse.server import PORT, Server

    if chosen.bundle is not None:
        if chosen.port is not None or chosen.token:
            option = "--port" if chosen.port is not None else "--token"
            raise MetisError(f"{option} goes with a server; a bundle needs none")
        print(f"page: {write_bundle(chosen.folders, chosen.bundle)}")
        return 0
    token = secrets.token_urlsafe(24) if chosen.token else ""
    with Server(chosen.folders, PORT if chosen.port is None else chosen.port, token) as server:
        print(f"{server.url}   (Ctrl-C ends)", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0
