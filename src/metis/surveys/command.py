"""`metis survey`: its options, and how they become a survey."""

import argparse
import json
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from metis import files
from metis.commands import Commands, add_command, digest, plain_console
from metis.errors import require

if TYPE_CHECKING:
    from rich.console import Console

HELP = """\
Before training: rolls out a random sample of the pool and says how much of it is all-fail,
all-pass or informative, what any selection could gain, what a step costs, and what to do. The
policy as it is answers; nothing is kept of it.

  metis survey recipes/math/qwen2.5-1.5b-h200.toml
  metis survey task=file task.path=problems.jsonl engine.model=Qwen/Qwen2.5-0.5B-Instruct
  metis survey RECIPE --prompts 1000 --out surveys/mine

A survey that was stopped goes on where it was when the same command is given again. Outcomes are
in DIR/outcomes.jsonl, what was said in DIR/transcripts, the page in DIR/survey.md. `--keep
FILE.jsonl.gz` writes ids, rewards and lengths as an outcome set, to develop a judge on without
rollouts.
"""


FOLDER = Path("surveys")
"""The folder of surveys that are given none."""


def add(commands: Commands) -> None:
    """Add the command to the parser's."""
    summary = "before training: is there anything to gain in this training set?"
    parser = add_command(commands, "survey", run, summary, HELP)
    option = parser.add_argument
    option("settings", nargs="*", metavar="RECIPE | key=value")
    option("--prompts", type=int, default=256, metavar="N", help="prompts to roll out (256)")
    option("--no-step", action="store_true", help="do not measure a step of training")
    option("--out", type=Path, metavar="DIR", help="default: under surveys/")
    option("--keep", type=Path, metavar="FILE", help="also write the outcomes as a small file")


def run(chosen: argparse.Namespace) -> int:
    """Survey, or show what an earlier call with the same settings found."""
    from metis.text.terminal import print_markdown

    out, text = conduct(chosen, plain_console())
    print()
    print_markdown(text)
    print(f"survey: {out / 'survey.md'}")
    return 0


def conduct(chosen: argparse.Namespace, console: "Console") -> tuple[Path, str]:
    """Survey, or find what an earlier call with the same settings found: its folder, its page."""
    from metis import config, loop
    from metis.config import generation
    from metis.run import sources
    from metis.surveys.collect import (
        SurveyFolder,
        SurveyView,
        collect,
        judging,
        sampled,
        step_seconds,
    )
    from metis.surveys.facts import SurveyFacts
    from metis.surveys.outcome_set import SUFFIX, OutcomeSet
    from metis.surveys.page import page
    from metis.tasks.base import expected

    require(chosen.prompts >= 2, "--prompts", chosen.prompts, "use at least 2")
    named = chosen.keep is None or chosen.keep.name.endswith(SUFFIX)
    require(named, "--keep", str(chosen.keep), f"name a file that ends in {SUFFIX}")
    settings = config.load_config(*config.parse_arguments(chosen.settings))
    for notice in settings.notices:
        print(f"metis: {notice}", file=sys.stderr)
    training = settings.training
    described = {**settings.resolved, "prompts": chosen.prompts}
    out = chosen.out or FOLDER / digest(described)
    sources.check_sources(out, settings.resolved, (out / "outcomes.jsonl").exists())
    say = console.print
    build = loop.Run.build(generation.chosen_for_rollouts(settings, chosen.prompts, say), say)
    engine, pool = build.engine, build.pool
    prompts = sampled(pool, chosen.prompts, training.seed)
    total = len(prompts) * training.group
    with (
        closing(engine),
        SurveyFolder.open(out, described) as folder,
        SurveyView(console, total) as view,
    ):
        sources.write_sources(out, settings.resolved)
        console.print(f"{len(prompts):,} prompts × {training.group} rollouts → {out}")
        asked = (engine, prompts, training.group, training.seed)
        expects = partial(expected, settings.task)
        outcomes = collect(*asked, folder, view, training.transcripts, expects)
        seconds: dict[str, float] = {}
        if not chosen.no_step:
            view.say("measuring a step of training")
            engine.reseed(len(prompts))
            seconds = step_seconds(engine, pool, judging(settings), out)
        if chosen.keep is not None:
            versions = json.loads((out / "versions.json").read_text("utf-8"))
            OutcomeSet(described, versions, len(pool), outcomes).write(chosen.keep)
        simulated = settings.engine_name == "simulated"
        task = settings.resolved.get("task", {}).get("name", "")
        text = page(SurveyFacts(outcomes), len(pool), training.group, seconds, simulated, task)
        with files.atomic(out / "survey.md") as file:
            file.write(text.encode())
    return out, text
