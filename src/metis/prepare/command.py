"""`metis prepare`: its tasks, with the words that each understands."""

import argparse

from metis.commands import Commands, add_command, add_out

MATH_HELP = """\
Prepares problems to train on and benchmarks to test with: parquet files that verl and the tasks of
`metis train` read, every row with its reference answer and a stable id. A set comes from the
Hugging Face hub, at a fixed revision, or from the source that is given for it:

  metis prepare math                                 all sets, from the hub
  metis prepare math aime24 dapo                     only these
  metis prepare math dapo=dapo-math-17k.parquet      from a file: .parquet, .jsonl or .jsonl.gz
  metis prepare math dapo=ORG/NAME@REVISION:FILE     from another place on the hub
  metis prepare math preset=paper                    training sets as they are

To train on: dapo (DAPO-Math-17k), math (the training half of MATH). To test with: aime24, aime25,
math500, minerva. Settings, with their defaults; all but the last are for training sets:

  duplicates=text        rows are one problem when they have the same `text`, or `wording`
  conflicts=drop         `drop` problems that have several answers, or keep the `first` answer
  contamination=drop     `drop` problems that are in a test set of the same folder, or `keep` them
  preset=recommended     `paper` is conflicts=first contamination=keep
  instruction="..."      what follows a problem in its prompt

What is there already, from the same source and with the same settings, is left as it is.
"""

CODE_HELP = """\
Fetches programming problems and writes them as parquet that task=code, metis eval and verl read.

  metis prepare code                                 all sets, from the hub
  metis prepare code humaneval mbpp                  only these
  metis prepare code mbpp=mbpp.jsonl                 from a file: .parquet, .jsonl or .jsonl.gz
  metis prepare code codecontests=ORG/NAME@REV:FILE  from another place on the hub

To train on: codecontests (CodeContests+, 46 GB to fetch), with the paper's filters: a Python
program among the correct submissions, at most 25 tests, no figure. To test with: livecodebench
(release 6), humaneval, mbpp (all 974), bigcodebench (v0.1.4).

What is there already, from the same source, is left as it is.
"""


BFCL_HELP = """\
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


def add(commands: Commands) -> None:
    """Add the command, and the tasks that can be prepared."""
    prepare = commands.add_parser("prepare", help="data to train on and to test with")
    tasks = prepare.add_subparsers(title="tasks", metavar="TASK", required=True)
    bfcl = add_command(tasks, "bfcl", _bfcl, "BFCL v3, multi-turn function calling", BFCL_HELP)
    bfcl.add_argument("settings", nargs="*", metavar="key=value")
    add_out(bfcl, "data/bfcl")
    sets = "DAPO-Math-17k, MATH, AIME 2024 and 2025, MATH-500, Minerva"
    math = add_command(tasks, "math", _math, sets, MATH_HELP)
    math.add_argument("settings", nargs="*", metavar="SET | SET=SOURCE | key=value")
    add_out(math, "data/math")
    sets = "CodeContests+, LiveCodeBench, HumanEval, MBPP, BigCodeBench"
    code = add_command(tasks, "code", _code, sets, CODE_HELP)
    code.add_argument("sets", nargs="*", metavar="SET | SET=SOURCE")
    add_out(code, "data/code")


def _bfcl(chosen: argparse.Namespace) -> int:
    from metis.prepare.bfcl import lines, prepare, understand

    settings, package = understand(chosen.settings)
    for line in lines(prepare(settings, chosen.out, package)):
        print(line)
    return 0


def _math(chosen: argparse.Namespace) -> int:
    from metis.prepare.math import lines, prepare, understand

    for line in lines(prepare(*understand(chosen.settings), chosen.out)):
        print(line)
    return 0


def _code(chosen: argparse.Namespace) -> int:
    from metis.prepare.code import lines, prepare, understand

    for line in lines(prepare(understand(chosen.sets), chosen.out)):
        print(line)
    return 0
