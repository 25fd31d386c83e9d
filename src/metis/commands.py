"""Shared parts of the commands: adding one to the parser, its console, the name of its folder."""

import argparse
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

Commands = Any
"""The commands of a parser; `argparse` keeps their class to itself."""

Run = Callable[[argparse.Namespace], int]
"""Runs a command with its options, and returns the exit code."""


def add_command(
    commands: Commands, name: str, run: Run, summary: str, description: str
) -> argparse.ArgumentParser:
    """Add a command, its description shown verbatim; returns the parser of its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def add_out(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the option --out, the folder that a command writes to."""
    usual = f"default: {default}"
    parser.add_argument("--out", type=Path, default=Path(default), metavar="DIR", help=usual)


def plain_console(stderr: bool = False) -> "Console":
    """A console that prints text as it is: no markup, no colours of its own, no folded lines."""
    from rich.console import Console

    return Console(stderr=stderr, soft_wrap=True, markup=False, highlight=False)


def digest(settings: Mapping[str, object]) -> str:
    """A hash of the settings, so that the same command finds its folder again."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
