"""`metis curricula`: lists the curricula, explains one, or says which fit a recipe."""

import argparse
import difflib
import json
from pathlib import Path

from metis.commands import Commands, add_command
from metis.errors import MetisError

HELP = """\
Lists the curricula there are, explains one with its settings, or says which can be used with a
recipe and what a survey of its training set makes of them. Nothing is trained.

  metis curricula                        a line for each
  metis curricula metis                  what it is, and every setting
  metis curricula --for RECIPE           those that this recipe can use, by its survey's facts
  metis curricula --for task=math engine.model=Qwen/Qwen2.5-0.5B-Instruct
  metis curricula --for RECIPE --survey surveys/mine

All take --json.
"""


def add(commands: Commands) -> None:
    """Add the command to the parser's."""
    summary = "the curricula there are, what one is, and which fit a recipe"
    parser = add_command(commands, "curricula", run, summary, HELP)
    option = parser.add_argument
    option("name", nargs="?", metavar="NAME", help="explain this one, setting by setting")
    option(
        "--for",
        dest="recipe",
        nargs="+",
        metavar="RECIPE | key=value",
        help="say which can be used with these settings",
    )
    option("--survey", type=Path, metavar="DIR", help="with --for: its survey (default: found)")
    option("--json", action="store_true", help="the same as JSON")


def run(chosen: argparse.Namespace) -> int:
    """Print what was asked for."""
    if chosen.name is not None and chosen.recipe:
        raise MetisError("name a curriculum, or a recipe with --for, not both")
    if chosen.survey is not None and not chosen.recipe:
        raise MetisError("--survey goes with --for RECIPE")
    if chosen.recipe:
        return _choose(chosen)
    return _explain(chosen.name, chosen.json) if chosen.name is not None else _list(chosen.json)


def _choose(chosen: argparse.Namespace) -> int:
    from metis import config
    from metis.choosing.choice import choose
    from metis.text.terminal import print_markdown

    choice = choose(*config.parse_arguments(chosen.recipe), chosen.survey)
    if chosen.json:
        print(json.dumps(choice.document(), indent=2))
    else:
        print_markdown("\n".join(choice.lines()))
    return 0


def _explain(name: str, as_json: bool) -> int:
    from metis.curricula import CURRICULA
    from metis.curricula.cards import describe_curriculum, document

    if name not in CURRICULA and ":" not in name:
        near = difflib.get_close_matches(name, CURRICULA, n=1)
        remedy = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(CURRICULA)}"
        raise MetisError(f"curriculum {name!r}: {remedy}")
    if as_json:
        print(json.dumps(document(name), indent=2))
    else:
        print(*describe_curriculum(name), sep="\n")
    return 0


def _list(as_json: bool) -> int:
    from metis.curricula import CURRICULA
    from metis.curricula.cards import document

    if as_json:
        print(json.dumps([document(name) for name in CURRICULA], indent=2))
        return 0
    width = max(map(len, CURRICULA))
    for name, kind in CURRICULA.items():
        print(f"{name:{width}}  {(kind.__doc__ or '').splitlines()[0]}")
    return 0
