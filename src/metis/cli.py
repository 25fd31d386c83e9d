"""The `metis` command."""

import argparse
import difflib
import hashlib
import inspect
import io
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import metis
from metis.compare import command as comparison
from metis.errors import MetisError
from metis.evals import command as evaluation
from metis.export import command as exporting
from metis.prepare import bfcl_command
from metis.survey import command as survey
from metis.view.browse import command as browsing

if TYPE_CHECKING:
    from rich.console import Console

    from metis.config import Config

TRAIN_HELP = """\
Trains a policy under a curriculum. Settings come from RECIPE (a TOML file; none: the
quickstart's, or the defaults where another engine or task is named), then from key=value arguments:

  metis train curriculum=metis steps=200
  metis train curriculum=uniform batch=64 seed=1 --out runs/baseline
  metis train curriculum.preset=paper curriculum.explore=0.05
  metis train task=file task.path=problems.jsonl task.reward=my_reward.py:score
  metis train task=my_task.py:MyTask curriculum=my_module:MyCurriculum

Running the same command again resumes the run where it was checkpointed; with --out it may have a
longer budget, or other settings of speed and memory. `--dry-run` prints every setting with its
value and where that comes from, as a recipe, and what a step costs; with engine=verl also the
command that is run. `metis curricula NAME` says what the knobs of a curriculum mean. RECIPE may
also be the config.json of a run.
"""

INSPECT_HELP = """\
Shows what the logs of a run say of a step: every prompt that was rolled out with the reason, the
prediction and the outcome; of one prompt also the distribution of the prediction, the exemplars
that the judge was shown, and an answer.

  metis inspect runs/a                         every step in a line
  metis inspect runs/a --step 12               the prompts of a step
  metis inspect runs/a --step 12 --all         with the candidates that were not chosen
  metis inspect runs/a --step 12 --prompt ID   one prompt
"""

PREPARE_MATH_HELP = """\
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
PREPARE_CODE_HELP = """\
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; an error that the user can mend is one line and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        chosen = _parse(arguments)
        code: int = chosen.run(chosen)
        sys.stdout.flush()
        return code
    except MetisError as error:
        print(f"metis: {error}", file=sys.stderr)
        return 2
    except MemoryError:
        print("metis: out of memory: lower batch, group or the size of the pool", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read this has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        where = f" {error.filename!r}" if error.filename else ""
        print(f"metis: {error.strerror or error}{where}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("metis: stopped; the same command goes on from what was saved last", file=sys.stderr)
        return 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise MetisError(f"{message}; see {self.prog} --help")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse a command line; settings may stand before and after options."""
    parser = _parser()
    chosen, rest = parser.parse_known_args(arguments)
    if not hasattr(chosen, "run"):
        return parser.parse_args(["--help"])
    unknown = [word for word in rest if word.startswith("-") or not hasattr(chosen, "settings")]
    if unknown:
        setting = unknown[0].lstrip("-").partition("=")[0]
        hint = f"; settings are written {setting}=VALUE" if hasattr(chosen, "settings") else ""
        parser.error(f"unknown argument {unknown[0]!r}{hint}")
    if rest:
        chosen.settings += rest
    return chosen


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="metis", description="Let a model judge which prompts it will learn most from."
    )
    parser.add_argument("--version", action="version", version=f"metis {metis.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    train = commands.add_parser(
        "train",
        help="train under a curriculum; the same command again resumes",
        description=TRAIN_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    train.add_argument("settings", nargs="*", metavar="RECIPE | key=value")
    train.add_argument("--out", type=Path, metavar="RUN", help="run folder (default: under runs/)")
    train.add_argument(
        "--dry-run", action="store_true", help="print the settings and their origins, and stop"
    )
    train.add_argument("--json", action="store_true", help="with --dry-run: the settings as JSON")
    train.set_defaults(run=_train)
    report = commands.add_parser(
        "report", help="a page, figures and a table of runs or a comparison"
    )
    report.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="run folder, or that of a comparison"
    )
    report.add_argument("--out", type=Path, metavar="DIR", help="default: RUN; of several, report/")
    report.set_defaults(run=_report)
    inspect_run = commands.add_parser(
        "inspect",
        help="why prompts were chosen in a step, and what came of it",
        description=INSPECT_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inspect_run.add_argument("folder", type=Path, metavar="RUN", help="run folder")
    inspect_run.add_argument("--step", type=int, metavar="T", help="the step to look at")
    inspect_run.add_argument("--prompt", metavar="ID", help="one prompt of it")
    inspect_run.add_argument("--all", action="store_true", help="also candidates not chosen")
    inspect_run.set_defaults(run=_inspect)
    browsing.add(commands)
    comparison.add(commands)
    evaluation.add(commands)
    exporting.add(commands)
    survey.add(commands)
    prepare = commands.add_parser("prepare", help="data to train on and to test with")
    tasks = prepare.add_subparsers(title="tasks", metavar="TASK", required=True)
    bfcl_command.add(tasks)
    _add_math(tasks)
    _add_code(tasks)
    curricula = commands.add_parser("curricula", help="the curricula there are, and their knobs")
    curricula.add_argument("name", nargs="?", metavar="NAME", help="what this one is, knob by knob")
    curricula.set_defaults(run=_curricula)
    return parser


def _add_math(tasks: Any) -> None:
    math = tasks.add_parser(
        "math",
        help="DAPO-Math-17k, MATH, AIME 2024 and 2025, MATH-500, Minerva",
        description=PREPARE_MATH_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    math.add_argument("settings", nargs="*", metavar="SET | SET=SOURCE | key=value")
    math.add_argument(
        "--out", type=Path, default=Path("data/math"), metavar="DIR", help="default: data/math"
    )
    math.set_defaults(run=_prepare_math)


def _add_code(tasks: Any) -> None:
    code = tasks.add_parser(
        "code",
        help="CodeContests+, LiveCodeBench, HumanEval, MBPP, BigCodeBench",
        description=PREPARE_CODE_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    code.add_argument("sets", nargs="*", metavar="SET | SET=SOURCE")
    code.add_argument(
        "--out", type=Path, default=Path("data/code"), metavar="DIR", help="default: data/code"
    )
    code.set_defaults(run=_prepare_code)


def _train(chosen: argparse.Namespace) -> int:
    from rich.console import Console

    from metis import config
    from metis.engines import ENGINES
    from metis.loop import conduct, finished
    from metis.run.folder import check
    from metis.run.manifest import complete
    from metis.view import TerminalView, heading

    recipe, overrides = config.parse(chosen.settings)
    if chosen.json and not chosen.dry_run:
        raise MetisError("--json goes with --dry-run; a run keeps its settings in config.json")
    settings = config.load(recipe, overrides, chosen.dry_run)
    out = chosen.out or _default_folder(settings.resolved)
    for notice in settings.notices:
        print(f"metis: {notice}", file=sys.stderr)
    if chosen.dry_run:
        return _dry_run(settings, out, chosen.json)
    if launch := ENGINES[settings.engine_name].launch:
        return launch(settings, out, False)
    console = Console(soft_wrap=True, markup=False, highlight=False)
    check(out, settings.resolved, settings.may_change)
    if finished(out, settings.training.budget):
        console.print(complete(out, _last_step(out), settings.training.steps))
        _show_summary(console, out)
        return 0
    view = TerminalView(console, heading(settings, out), settings.training.evaluate)
    if not conduct(settings, out, view):
        step = _last_step(out)
        console.print(f"stopped after step {step}; the same command goes on from there")
        return 130
    _show_summary(console, out)
    return 0


def _dry_run(settings: "Config", out: Path, as_json: bool) -> int:
    """Print the settings; beside the command of another trainer, which is to be copied, to stderr.

    That command needs the data.
    """
    from rich.console import Console

    from metis.engines import ENGINES
    from metis.view.dry_run import show

    if as_json:
        print(json.dumps(settings.resolved, indent=2))
        return 0
    launch = ENGINES[settings.engine_name].launch
    show(settings, Console(stderr=bool(launch), soft_wrap=True, markup=False, highlight=False))
    return launch(settings, out, True) if launch and settings.task is not None else 0


def _last_step(out: Path) -> int:
    from metis.run.folder import checkpoints

    return max((step for step, _ in checkpoints(out)), default=0)


def _show_summary(console: "Console", out: Path) -> None:
    from metis.view import summary

    for line in summary(out):
        console.print(line)


def _default_folder(resolved: dict[str, object]) -> Path:
    """A name fixed by the settings, so that the same command finds its run again."""
    digest = hashlib.sha256(json.dumps(resolved, sort_keys=True).encode()).hexdigest()[:8]
    parts = []
    for key in ("curriculum", "engine"):
        section = resolved[key]
        assert isinstance(section, dict)
        parts.append(section["name"].rpartition(":")[2])
    return Path("runs") / f"{'-'.join(parts)}-seed{resolved['seed']}-{digest}"


def _report(chosen: argparse.Namespace) -> int:
    from metis import report
    from metis.compare.comparison import is_comparison
    from metis.compare.report import redraw

    comparisons = [folder for folder in chosen.runs if is_comparison(folder)]
    if comparisons and len(chosen.runs) > 1:
        raise MetisError(f"{str(comparisons[0])!r} is a comparison: name it alone, or name runs")
    write = report.write if not comparisons else lambda folders, out: redraw(folders[0], out)
    for line in write(chosen.runs, chosen.out):
        print(line)
    return 0


def _inspect(chosen: argparse.Namespace) -> int:
    from rich.console import Console

    from metis.view.inspection import inspect

    console = Console(soft_wrap=True, markup=False, highlight=False)
    for shown in inspect(chosen.folder, chosen.step, chosen.prompt, chosen.all):
        console.print(shown)
    return 0


def _prepare_math(chosen: argparse.Namespace) -> int:
    from metis.prepare import summary
    from metis.prepare.arguments import understand
    from metis.prepare.math import prepare

    for line in summary.lines(prepare(*understand(chosen.settings), chosen.out)):
        print(line)
    return 0


def _prepare_code(chosen: argparse.Namespace) -> int:
    from metis.prepare.code import lines, prepare, understand

    for line in lines(prepare(understand(chosen.sets), chosen.out)):
        print(line)
    return 0


def _assignments(settings: Mapping[str, object]) -> list[str]:
    return [f"  {key}={json.dumps(value)}" for key, value in settings.items()]


def _curricula(chosen: argparse.Namespace) -> int:
    from metis.core.needs import needs_of
    from metis.curricula import CURRICULA
    from metis.curricula.cards import documented
    from metis.curricula.registry import curriculum_class, defaults, presets, sections
    from metis.dotted import leaves

    if chosen.name is not None:
        if chosen.name not in CURRICULA and ":" not in chosen.name:
            near = difflib.get_close_matches(chosen.name, CURRICULA, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(CURRICULA)}"
            raise MetisError(f"curriculum {chosen.name!r}: {remedy}")
        kind = curriculum_class(chosen.name)
        about = [inspect.getdoc(inspect.getmodule(kind)), documented(kind)]
        about += [f"{key}: {inspect.getdoc(section)}" for key, section in sections(kind).items()]
        print(*filter(None, about), sep="\n\n")
        print("", f"Needs  {needs_of(kind()).described()}", sep="\n")
        known = defaults(kind)
        print("", "Defaults", *_assignments(known), sep="\n")
        for name, preset in presets(chosen.name).items():
            settings = leaves(preset, "curriculum.")
            changed = {key: value for key, value in settings if known[key] != value}
            lines = _assignments(changed) or ["  the defaults"]
            print("", f"curriculum.preset={name}", *lines, sep="\n")
        return 0
    width = max(map(len, CURRICULA))
    for name, kind in CURRICULA.items():
        print(f"{name:{width}}  {(kind.__doc__ or '').splitlines()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
