"""`metis judge`: its options, and how they become a ranking."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from metis import files
from metis.commands import Commands, add_command, digest, plain_console
from metis.errors import require

if TYPE_CHECKING:
    from rich.console import Console

    from metis.rankings.measured import HeldOutPredictions
    from metis.rankings.page import Judged
    from metis.rankings.plan import RankingPlan
    from metis.rankings.predictions import RankingFolder
    from metis.rankings.ranking import Ranking
    from metis.run.waiting import Say
    from metis.surveys.collect import Playable

HELP = """\
Ranks the prompts of a file by the expected variance of their rewards, before anyone trains: some
of them are rolled out, and a regression from the model's hidden states to the outcomes predicts
the others.

  metis judge Qwen/Qwen2.5-0.5B-Instruct prompts.jsonl engine.max_tokens=1024
  metis judge MODEL prompts.jsonl task.reward=my_reward.py:score --calibrate 500
  metis judge MODEL prompts.jsonl recipes/math/qwen2.5-1.5b-h200.toml --out ranked
  metis judge MODEL prompts.jsonl --server http://gpu:8000 --pooling http://gpu:8001

Every row has a prompt (prompt, problem, question or text) and an answer. DIR/ranking.jsonl has the
prompts, best first: rank, id, row of the file, expected variance, expected pass rate. The page is
DIR/judge.html. The same command goes on where it was stopped.
"""

FOLDER = Path("rankings")
"""The folder of rankings that are given none."""
KEY = "OPENAI_API_KEY"
"""The variable of the environment with the key of a server."""


def add(commands: Commands) -> None:
    """Add the command to the parser's."""
    summary = "rank a file of prompts by what a model would learn from them, before training"
    parser = add_command(commands, "judge", run, summary, HELP)
    option = parser.add_argument
    option("model", metavar="MODEL", help="as engine.model; with --server, its name there")
    option("prompts", type=Path, metavar="PROMPTS.jsonl", help="also .jsonl.gz or .parquet")
    option("settings", nargs="*", metavar="RECIPE | key=value")
    option("--calibrate", type=int, default=200, metavar="N", help="prompts to roll out (200)")
    option("--server", default="", metavar="URL", help="an OpenAI-compatible server for rollouts")
    option("--pooling", default="", metavar="URL", help="vLLM's pooling server (default: --server)")
    option("--out", type=Path, metavar="DIR", help="default: under rankings/")


def run(chosen: argparse.Namespace) -> int:
    """Rank, or show what an earlier call with the same settings found."""
    from metis.text.terminal import print_markdown

    out, text = conduct(chosen, plain_console())
    print()
    print_markdown(text)
    print(f"ranking: {out / 'ranking.jsonl'}")
    print(f"page: {out / 'judge.html'}")
    return 0


def conduct(chosen: argparse.Namespace, console: "Console") -> tuple[Path, str]:
    """Rank, or find what an earlier call with the same settings found: its folder, its summary."""
    from metis.rankings import predictions
    from metis.rankings.measured import HeldOutPredictions
    from metis.rankings.page import markdown, page
    from metis.rankings.plan import plan, readout
    from metis.rankings.ranking import Ranking
    from metis.surveys.collect import Playable, SurveyView

    require(chosen.calibrate >= 2, "--calibrate", chosen.calibrate, "use at least 2")
    require(bool(chosen.server) or not chosen.pooling, "--pooling", chosen.pooling, "give --server")
    made = plan(chosen.model, chosen.prompts, chosen.settings, chosen.calibrate)
    _tell([*made.scan.notices, *made.config.notices])
    judge = readout(made.config, bool(chosen.server))
    described = {**made.described, **_servers(chosen)}
    out = chosen.out or FOLDER / digest(described)
    with predictions.RankingFolder.open(out, described) as folder, ExitStack() as stack:
        console.print(
            f"{made.scan.prompts:,} prompts, {len(made.scan.sample):,} of them "
            f"× {made.config.training.group} rollouts → {out}"
        )

        @cache
        def engine() -> Playable:
            built = stack.enter_context(closing(_engine(made, chosen, console.print)))
            stack.callback(_tell, built.notices)
            return built

        def view(noun: str, total: int) -> SurveyView:
            return SurveyView(console, total, noun=noun)

        predictions.calibrate(made, described, judge, folder, engine, view)
        fitted = predictions.fitted(made, judge)
        predictions.predict(made, judge, fitted, folder, engine, view)
        ranked = Ranking.of(folder, made.scan.prompts)
        ranked.write(folder)
        judged = _judged(
            chosen, made, folder, ranked, HeldOutPredictions.of(fitted, judge.outcomes)
        )
        with files.atomic(out / "judge.html") as file:
            file.write(page(judged).encode("utf-8", "replace"))
    return out, markdown(judged)


def _tell(notices: Sequence[str]) -> None:
    for notice in notices:
        print(f"metis: {notice}", file=sys.stderr)


def _servers(chosen: argparse.Namespace) -> dict[str, str]:
    if not chosen.server:
        return {}
    return {"server": chosen.server, "pooling": chosen.pooling or chosen.server}


def _engine(made: "RankingPlan", chosen: argparse.Namespace, say: "Say") -> "Playable":
    """What rolls out and reads hidden states: an engine of the settings, or servers."""
    from metis.config import generation
    from metis.engines import ENGINES

    settings, task = made.config, made.config.task
    if not chosen.server:
        settings = generation.chosen_for_rollouts(settings, len(made.scan.sample), say)
        training, build = settings.training, ENGINES[settings.engine_name].build
        engine: Playable = build(settings.engine, task, training.seed, training.data, say)
        return engine
    from metis.rankings.served import served

    assert task is not None
    return served(task, settings.engine, chosen.model, _servers(chosen), os.environ.get(KEY, ""))


def _judged(
    chosen: argparse.Namespace,
    made: "RankingPlan",
    folder: "RankingFolder",
    ranked: "Ranking",
    measured: "HeldOutPredictions",
) -> "Judged":
    """The ranking as it is shown, with the texts of its best and worst prompts."""
    from metis.rankings.page import SHOWN, Judged

    known = len(ranked.variances)
    best = range(min(SHOWN, known))
    worst = range(known - 1, max(known - SHOWN, len(best)) - 1, -1)
    first, last = (list(ranked.lines(folder, places)) for places in (best, worst))
    texts = made.file.texts(line["row"] for line in (*first, *last))
    servers = [word for name, url in _servers(chosen).items() for word in (f"--{name}", url)]
    words = ["judge", chosen.model, str(chosen.prompts), *chosen.settings, *servers]
    return Judged(
        chosen.model,
        chosen.prompts.name,
        made.config.training.group,
        ranked,
        measured,
        folder.outcomes,
        [{**line, "text": texts[line["row"]]} for line in first],
        [{**line, "text": texts[line["row"]]} for line in last],
        [*words, "--calibrate", str(chosen.calibrate)],
    )
