"""The `metis` command."""

import argparse
import difflib
import io
import json
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import metis
from metis.choosing import command as choosing
from metis.commands import add_command, digest, plain_console
from metis.comparisons import command as comparison
from metis.doctor import command as doctor
from metis.errors import MetisError
from metis.evals import command as evaluation
from metis.export import command as exporting
from metis.prepare import command as preparing
from metis.rankings import command as ranking
from metis.surveys import command as survey
from metis.view.browse import command as browsing

if TYPE_CHECKING:
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
command that is run. `metis curricula NAME` says what the settings of a curriculum mean. RECIPE may
also be the config.json of a run.
"""

REPORT_HELP = """\
Writes a page (report.html), figures and a table of runs, from their folders alone: nothing is
trained, and runs may still be at it. Of a comparison only finished runs are compared; others are
named with the reason.

  metis report runs/a                      of a run, into its folder
  metis report runs/a runs/b               of several side by side, into report/
  metis report cmp                         of a comparison: its table and its page
  metis report cmp --baseline metis        against another variant, this once
  metis report cmp --out elsewhere         leaves the folder as it is
"""

INSPECT_HELP = """\
Shows what `metis view` shows in the terminal: every prompt of a step with the reason, the
prediction and the outcome; a prompt over all steps; of one step also the distribution of the
prediction and the exemplars that the judge was shown; an answer with its turns.

  metis inspect runs/a                         every step in a line
  metis inspect runs/a --step 12               the prompts of a step; 0 is before training
  metis inspect runs/a --step 12 --all         with the candidates that were not chosen
  metis inspect runs/a --prompt ID             one prompt over all steps
  metis inspect runs/a --step 12 --prompt ID   one prompt in a step, with its answers
  metis inspect runs/a --answer 12/ID/0        one answer with its turns
  metis inspect runs/a --answer eval/12/ID/0   a validation answer; judge/... a judgment
  metis inspect surveys/a                      the prompts of a survey, or of an evaluation
  metis inspect runs/a --step 12 --json        any of these as JSON, with all that is known
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; an error that the user can mend is one line and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace", line_buffering=True)
    try:
        chosen = _parse(arguments)
        code: int = chosen.run(chosen)
        sys.stdout.flush()
        return code
    except MetisError as error:
        print(f"metis: {error}", file=sys.stderr)
        return 2
    except MemoryError:
        print("metis: out of memory: lower batch, group or the number of prompts", file=sys.stderr)
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
    if "_ARGCOMPLETE" in os.environ:
        _complete(parser)
    chosen, rest = parser.parse_known_args(arguments)
    if not hasattr(chosen, "run"):
        return parser.parse_args(["--help"])
    unknown = [word for word in rest if word.startswith("-") or not hasattr(chosen, "settings")]
    if unknown:
        parser.error(f"unknown argument {unknown[0]!r}{_hint(unknown[0], chosen)}")
    if rest:
        chosen.settings += rest
    return chosen


def _complete(parser: argparse.ArgumentParser) -> None:
    """Answer a shell's request for completions, and exit."""
    import argcomplete

    from metis.config import completion

    for command in subcommands(parser).values():
        for action in command._actions:
            if answer := completion.ANSWERS.get(action.dest):
                action.completer = answer  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser)


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser, by name."""
    kind = argparse._SubParsersAction
    [commands] = [action for action in parser._actions if isinstance(action, kind)]
    return dict(commands.choices)


def _hint(word: str, chosen: argparse.Namespace) -> str:
    """The option that an unknown word may be meant for, else the way settings are written."""
    name = word.lstrip("-").partition("=")[0]
    options = [key.replace("_", "-") for key in vars(chosen) if key not in ("run", "settings")]
    longer = [option for option in options if word.startswith("-") and name.startswith(option)]
    if near := longer or difflib.get_close_matches(name, options, n=1, cutoff=0.8):
        return f"; did you mean --{near[0]}?"
    return f"; settings are written {name}=VALUE" if hasattr(chosen, "settings") else ""


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="metis", description="Let a model judge which prompts it will learn most from."
    )
    parser.add_argument("--version", action="version", version=f"metis {metis.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    summary = "train under a curriculum; the same command again resumes"
    train = add_command(commands, "train", _train, summary, TRAIN_HELP)
    train.add_argument("settings", nargs="*", metavar="RECIPE | key=value")
    train.add_argument("--out", type=Path, metavar="RUN", help="run folder (default: under runs/)")
    train.add_argument(
        "--dry-run", action="store_true", help="print the settings and their origins, and stop"
    )
    train.add_argument("--json", action="store_true", help="with --dry-run: the settings as JSON")
    summary = "a page, figures and a table of runs or a comparison"
    report = add_command(commands, "report", _report, summary, REPORT_HELP)
    report.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="run folder, or that of a comparison"
    )
    report.add_argument("--out", type=Path, metavar="DIR", help="default: RUN; of several, report/")
    report.add_argument(
        "--baseline", metavar="NAME", help="the variant of a comparison to compare with"
    )
    summary = "why prompts were chosen in a step, and what came of it"
    inspect_run = add_command(commands, "inspect", _inspect, summary, INSPECT_HELP)
    inspect_run.add_argument("folder", type=Path, metavar="RUN", help="run folder")
    inspect_run.add_argument("--step", type=int, metavar="T", help="the step to look at")
    inspect_run.add_argument("--prompt", metavar="ID", help="one prompt of it, or of all")
    answer = "one answer of a prompt in a step"
    inspect_run.add_argument("--answer", metavar="STEP/ID/K", help=answer)
    inspect_run.add_argument("--all", action="store_true", help="also candidates not chosen")
    inspect_run.add_argument("--json", action="store_true", help="the same as JSON")
    browsing.add(commands)
    comparison.add(commands)
    evaluation.add(commands)
    exporting.add(commands)
    survey.add(commands)
    ranking.add(commands)
    preparing.add(commands)
    doctor.add(commands)
    choosing.add(commands)
    return parser


def _train(chosen: argparse.Namespace) -> int:
    from metis import config
    from metis.start import start
    from metis.view import TerminalView, heading, summary

    recipe, overrides = config.parse_arguments(chosen.settings)
    _refuse_run(recipe, overrides, chosen.out)
    if chosen.json and not chosen.dry_run:
        raise MetisError("--json goes with --dry-run; a run keeps its settings in config.json")
    settings = config.load_config(recipe, overrides, chosen.dry_run)
    out = chosen.out or _default_folder(settings.resolved)
    for notice in settings.notices:
        print(f"metis: {notice}", file=sys.stderr)
    if chosen.dry_run:
        return _dry_run(settings, out, chosen.json)
    console = plain_console()
    view = TerminalView(console, heading(settings, out), settings.training.evaluate)
    code = start(settings, out, view)
    for line in summary(out) if code == 0 else ():
        console.print(line)
    return code


def _refuse_run(recipe: Path | None, overrides: Sequence[str], out: Path | None) -> None:
    """Refuse a run folder in place of a recipe, with the command that goes on with the run."""
    from metis.run import models

    if recipe is None or models.run_settings(recipe) is None:
        return
    where = str(out or recipe)
    command = shlex.join(
        ["metis", "train", str(recipe / "config.json"), *overrides, "--out", where]
    )
    aim = "go on" if out in (None, recipe) else "train another with its settings"
    raise MetisError(f"recipe {str(recipe)!r} is a run folder; to {aim}: {command}")


def _dry_run(settings: "Config", out: Path, as_json: bool) -> int:
    """Print the settings; to stderr if a command to copy goes to stdout."""
    from metis.config.generation import continued
    from metis.start import trainer
    from metis.view.dry_run import show

    settings = continued(settings, out)
    chosen = trainer(settings.engine_name)
    for remark in chosen.foreseen(settings, out):
        print(f"metis: {remark}", file=sys.stderr)
    if as_json:
        print(json.dumps(settings.resolved, indent=2))
        return 0
    try:
        command = chosen.command(settings, out)
    except MetisError:
        show(settings, plain_console(stderr=True))
        raise
    show(settings, plain_console(stderr=bool(command)))
    if command:
        print(command)
    return 0


def _default_folder(resolved: dict[str, object]) -> Path:
    """A name with a hash of the settings, so that the same command finds its run again."""
    parts = []
    for key in ("curriculum", "engine"):
        section = resolved[key]
        assert isinstance(section, dict)
        parts.append(section["name"].rpartition(":")[2])
    return Path("runs") / f"{'-'.join(parts)}-seed{resolved['seed']}-{digest(resolved)}"


def _report(chosen: argparse.Namespace) -> int:
    from metis import report
    from metis.comparisons.comparison import is_comparison
    from metis.comparisons.report import redraw
    from metis.text.terminal import print_markdown

    comparisons = [folder for folder in chosen.runs if is_comparison(folder)]
    if comparisons and len(chosen.runs) > 1:
        raise MetisError(f"{str(comparisons[0])!r} is a comparison: name it alone, or name runs")
    if comparisons:
        text, *where = redraw(comparisons[0], chosen.out, chosen.baseline or "")
    elif chosen.baseline:
        raise MetisError(f"--baseline {chosen.baseline!r} goes with a comparison; these are runs")
    else:
        text, *where = report.write(chosen.runs, chosen.out)
    print_markdown(text)
    print(*where, sep="\n")
    return 0


def _inspect(chosen: argparse.Namespace) -> int:
    from metis.view.inspected import inspected
    from metis.view.inspection import inspect

    if chosen.json:
        where = chosen.folder, chosen.step, chosen.prompt, chosen.all, chosen.answer
        print(json.dumps(inspected(*where), indent=2))
        return 0
    console = plain_console()
    for shown in inspect(chosen.folder, chosen.step, chosen.prompt, chosen.all, chosen.answer):
        console.print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
