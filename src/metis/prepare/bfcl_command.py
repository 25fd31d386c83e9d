"""`metis prepare bfcl`: its words, and the table that it ends with."""

import argparse
from collections.abc import Iterator
from typing import Any

from metis.commands import Commands, add_command, add_out

HELP = """\
Prepares the five multi-turn categories of BFCL v3: base, miss_func, miss_param, long_context and
composite, 200 dialogues each. They come from the package bfcl-eval, at a fixed version, of which
nothing is installed.

  metis prepare bfcl                         four fifths to train on, one to test with
  metis prepare bfcl preset=paper            as in the paper
  metis prepare bfcl package=bfcl_eval.whl   from a copy of the wheel

Settings, with their defaults:

  composite=rebuilt      `official` is the published composite category, in which most ground truths
                         have calls that fail: broken.jsonl lists them
  split=dialogue         all variants of a dialogue on one side; `category` splits each for itself
  seed=0                 of the split, which is written to split.json
  preset=recommended     `paper` is composite=official split=category

What is there already, with the same settings, is left as it is.
"""


def add(tasks: Commands) -> None:
    """Add the task to those that can be prepared."""
    parser = add_command(tasks, "bfcl", run, "BFCL v3, multi-turn function calling", HELP)
    parser.add_argument("settings", nargs="*", metavar="key=value")
    add_out(parser, "data/bfcl")


def run(chosen: argparse.Namespace) -> int:
    """Prepare, and say what came of it."""
    from metis.prepare.bfcl import prepare, understand

    settings, package = understand(chosen.settings)
    for line in lines(prepare(settings, chosen.out, package)):
        print(line)
    return 0


def lines(prepared: Any) -> Iterator[str]:
    """The table of categories, and what should be known of them."""
    yield f"{'category':<14}{'dialogues':>10}{'broken':>8}{'train':>7}{'heldout':>9}"
    for each in prepared.outcomes:
        numbers = f"{each.dialogues:>10}{each.broken:>8}{each.train:>7}{each.heldout:>9}"
        yield f"{each.category:<14}{numbers}"
    state = "" if prepared.fresh else " (already there)"
    yield f"{prepared.folder}: train.parquet, heldout.parquet, split.json{state}"
    if any(each.broken for each in prepared.outcomes):
        yield f"ground truths with calls that fail: {prepared.folder / 'broken.jsonl'}"
