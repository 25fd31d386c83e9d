"""`metis compare`: its options, and how they become a comparison."""

import argparse
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from metis import config
from metis.commands import Commands, add_command, plain_console
from metis.comparisons import benchmarks
from metis.comparisons.comparison import Comparison, read_comparison, require_variant
from metis.comparisons.ending import settled
from metis.comparisons.plan import (
    BASELINE,
    ComparisonPlan,
    Suite,
    parse_seeds,
    parse_variants,
    saved,
)
from metis.comparisons.report import draw, write
from metis.comparisons.table import markdown
from metis.errors import MetisError, require
from metis.report.panels import Figure
from metis.run import comparable
from metis.run.folder import lock_folder
from metis.text import printable

if TYPE_CHECKING:
    from rich.console import Console

SEEDS = "0,1,2"

HELP = """\
Trains the same recipe under several curricula and seeds, and compares them: accuracy with its
standard error, the cost to reach the baseline's best in steps, rollouts, tokens and seconds, and
which differences are shown. Every run starts from the same weights and is tested on the same
prompts.

  metis compare engine=simulated steps=100 evaluate=10 --curricula uniform,dapo,metis --out cmp
  metis compare RECIPE --curricula uniform,metis --seeds 0-4 --jobs 9 --out cmp
  metis compare RECIPE --curricula uniform,metis --variant bold:curriculum.explore=0.3 --out cmp
  metis compare RECIPE --curricula uniform,metis --suite math --out cmp   benchmarks, after training
  metis compare --out cmp                  the table again, or the rest of what was stopped
  metis report cmp                         the table of what is there; trains nothing

The same command goes on where it was stopped; other variants and seeds are added to those that
are there. A run is DIR/VARIANT-SEED, its output DIR/VARIANT-SEED.log; the table is
DIR/comparison.md, the page with curves DIR/report.html.
"""


def add(commands: Commands) -> None:
    """Add the command to the parser's."""
    summary = "several curricula and seeds on one recipe, and which is faster"
    parser = add_command(commands, "compare", run, summary, HELP)
    option = parser.add_argument
    option("settings", nargs="*", metavar="RECIPE | key=value")
    option("--curricula", default="", metavar="A,B,C", help="a variant for each")
    option(
        "--variant",
        "--arm",
        action="append",
        default=[],
        metavar="NAME:key=value,...",
        help="another variant",
    )
    option("--seeds", metavar="S,S,S", help="of every variant: 0,1,2 (default), 0-4")
    option(
        "--baseline", metavar="NAME", help=f"the variant to compare with ({BASELINE}, or the first)"
    )
    suite = "evaluate finished runs on benchmarks or files, as `metis eval --suite` does"
    option("--suite", nargs="+", default=[], metavar="NAME", help=suite)
    option("--samples", type=int, default=1, metavar="K", help="answers to each problem of it (1)")
    kept = "evaluated: best, last or a step (default: best, or else last)"
    option("--checkpoint", default="", metavar="NAME", help=kept)
    option("--jobs", type=int, metavar="N", help="runs at a time (one, or one on each GPU)")
    option("--discard", action="store_true", help="delete a run's checkpoints when it is finished")
    option("--out", type=Path, required=True, metavar="DIR", help="folder of the comparison")


def run(chosen: argparse.Namespace) -> int:
    """Train what is left of a comparison, write its table and its page, and show the table."""
    from metis.text.terminal import print_markdown

    code, written = conduct(chosen, plain_console())
    if written:
        text, *where = written
        print()
        print_markdown(text)
        print(*where, sep="\n")
    return code


def conduct(chosen: argparse.Namespace, console: "Console") -> tuple[int, list[str]]:
    """Train what is left of a comparison, and write its table and its page.

    Returns the exit code, and the table with where it is; nothing where there is no table yet.
    """
    require(chosen.jobs is None or chosen.jobs >= 1, "--jobs", chosen.jobs, "use at least 1")
    require(chosen.samples >= 1, "--samples", chosen.samples, "use at least 1")
    plan, whole = _plan(chosen), True
    require_variant(chosen.out, plan, chosen.baseline or "")
    failed: dict[str, str] = {}
    if plan is not None:
        before, plan = plan, replace(plan, baseline=chosen.baseline or plan.baseline)
        complete = _complete(plan, chosen)
        if plan != before or not complete:
            failed, whole = _held(plan, chosen, complete, console)
            plan = saved(chosen.out)
    try:
        comparison, drawn = draw(read_comparison(chosen.out, plan, failed, chosen.baseline or ""))
    except MetisError as error:
        if whole:
            raise
        print(f"metis: no table yet: {error}", file=sys.stderr)
        return 130, []
    code = 130 if not whole else 1 if comparison.missing or failed else 0
    return code, _written(chosen.out, comparison, drawn, plan)


def _written(
    out: Path, comparison: Comparison, drawn: Sequence[Figure], plan: ComparisonPlan | None
) -> list[str]:
    """Write the table and the page; the table, and where they are if they can be written."""
    try:
        return write(out, comparison, drawn, plan)
    except MetisError as error:
        print(f"metis: {str(error).partition(':')[0]}: {_elsewhere(out)}", file=sys.stderr)
        return [markdown(comparison)]


def _elsewhere(out: Path) -> str:
    return f"`metis report {out} --out DIR` writes the table and the page elsewhere"


def _plan(chosen: argparse.Namespace) -> ComparisonPlan | None:
    """The runs to train, and what they are evaluated on."""
    plan = _runs(chosen)
    if plan is None:
        if chosen.suite:
            raise MetisError("--suite: there is no plan of a comparison; name variants too")
        return None
    plan = plan.evaluated_on(Suite(tuple(chosen.suite), chosen.samples, chosen.checkpoint))
    if chosen.suite:
        benchmarks.require_suite(plan.suite, plan.configs())
    return plan


def _runs(chosen: argparse.Namespace) -> ComparisonPlan | None:
    """The runs to train: variants of the command line joined with those of the folder."""
    recipe, settings = config.parse_arguments(chosen.settings)
    variants = parse_variants(chosen.curricula, chosen.variant)
    earlier, seeds = saved(chosen.out), tuple(parse_seeds(chosen.seeds or SEEDS))
    if not variants:
        if chosen.settings and earlier is not None:
            raise MetisError(
                f"{chosen.settings[0]}: the settings of a comparison are fixed when it is begun; "
                "name another --out, or give the setting to a --variant"
            )
        if chosen.settings or (chosen.seeds and earlier is None):
            raise MetisError("no variants to compare: name some with --curricula or --variant")
        if earlier is None or not chosen.seeds:
            return earlier
        return replace(earlier, seeds=tuple(sorted({*earlier.seeds, *seeds})))
    plan = ComparisonPlan(
        str(recipe or ""), tuple(settings), tuple(variants), seeds
    ).on_the_same_prompts()
    return plan.joined(earlier) if earlier else plan


def _complete(plan: ComparisonPlan, chosen: argparse.Namespace) -> bool:
    """True where a folder is named and nothing to train, and none of its runs is left to train:
    then neither its recipe nor the right to write into it is needed."""
    if chosen.settings or chosen.curricula or chosen.variant or chosen.seeds:
        return False
    names = [variant.run(seed) for variant, seed in plan.runs()]
    if plan.suite.names and not all(benchmarks.finished(chosen.out, name) for name in names):
        return False
    return all(settled(plan, chosen.out / name) for name in names)


def _held(
    plan: ComparisonPlan, chosen: argparse.Namespace, complete: bool, console: "Console"
) -> tuple[dict[str, str], bool]:
    """Train in a folder that no other process may use meanwhile; a complete plan is but saved."""
    report = f"metis report {chosen.out}"
    there = any(chosen.out.glob("*/config.json"))
    try:
        chosen.out.mkdir(parents=True, exist_ok=True)
        with lock_folder(chosen.out):
            if not complete:
                return _train(plan, chosen, console)
            plan.save(chosen.out)
            return {}, True
    except OSError as error:
        why = f"--out {str(chosen.out)!r} cannot be written ({error.strerror or error})"
        report += " --out DIR"
    except MetisError as error:
        why = str(error)
    raise MetisError(f"{why}; `{report}` shows what is there" if there else why)


def _train(
    plan: ComparisonPlan, chosen: argparse.Namespace, console: "Console"
) -> tuple[dict[str, str], bool]:
    """Runs that failed, with the reason, and False where all were interrupted."""
    from metis.comparisons.schedule import ComparisonView, Schedule, devices, pending
    from metis.engines import ENGINES

    configs = plan.configs()
    _warn_of_unlike(plan, configs)
    runs, gpus = pending(plan, configs, chosen.out), devices()
    if any(ENGINES[variant.engine_name].all_devices for variant in configs.values()):
        gpus = []
    jobs = chosen.jobs or max(1, len(gpus))
    plan = replace(plan, finished=tuple({*plan.finished} - {run.name for run in runs}))
    if jobs > max(1, len(gpus)) and len(runs) > 1:
        plan = replace(plan, crowded=tuple({*plan.crowded, *(run.name for run in runs)}))
        console.print("runs share a device: their seconds will not be compared")
    plan.save(chosen.out)
    kept = Kept(plan, chosen.out, chosen.discard)
    with ComparisonView(console, len(runs)) as view:
        schedule = Schedule(chosen.out, jobs, gpus, view, kept.finish)
        schedule.train(runs)
    if schedule.stopped:
        console.print("stopped; the same command goes on from there")
    failed = {name: f"failed: {why}; see {name}.log" for name, why in schedule.failures.items()}
    return failed, not schedule.stopped


def _warn_of_unlike(plan: ComparisonPlan, configs: Mapping[str, config.Config]) -> None:
    """Name the variants whose accuracy will not be compared, before they are trained."""
    names = list(configs)
    baseline = plan.baseline or (BASELINE if BASELINE in names else names[0])
    for name, variant in configs.items():
        ours, theirs = (
            json.loads(json.dumps(each.resolved)) for each in (variant, configs[baseline])
        )
        if unlike := comparable.unlike(ours, theirs):
            said = f"variant {name!r} will not be compared with {baseline!r}: {'; '.join(unlike)}"
            print(f"metis: {printable(said)}", file=sys.stderr)


@dataclass
class Kept:
    """A plan on disk that notes which runs are finished, and drops their checkpoints if told to."""

    plan: ComparisonPlan
    out: Path
    discard: bool

    def finish(self, run: str) -> None:
        self.plan = replace(self.plan, finished=tuple({*self.plan.finished, run}))
        self.plan.save(self.out)
        if self.discard:
            shutil.rmtree(self.out / run / "checkpoints", ignore_errors=True)
