"""`metis compare`: its options, and how they become a comparison."""

import argparse
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from metis import config, state
from metis.compare.arms import BASELINE, parse_arms, parse_seeds
from metis.compare.plan import Plan, saved
from metis.errors import MetisError, require

SEEDS = "0,1,2"

HELP = """\
Trains the same recipe under several curricula and seeds, and compares them: accuracy with its
standard error, the cost to reach the baseline's best in steps, rollouts, tokens and seconds, and
which differences are beyond noise. Every run starts from the same weights and is tested on the same
prompts.

  metis compare engine=simulated steps=100 evaluate=10 --curricula uniform,dapo,metis --out cmp
  metis compare RECIPE --curricula uniform,metis --seeds 0-4 --jobs 9 --out cmp
  metis compare RECIPE --curricula uniform,metis --arm bold:curriculum.explore=0.3 --out cmp
  metis compare --out cmp                  the table again, or the rest of what was stopped

The same command goes on where it was stopped; other arms and seeds are added to those that are
there. A run is DIR/ARM-SEED, its output DIR/ARM-SEED.log; the table is DIR/comparison.md.
"""


def add(commands: Any) -> None:
    """Add the command to the parser's."""
    parser = commands.add_parser(
        "compare",
        help="several curricula and seeds on one recipe, and which is faster",
        description=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    option = parser.add_argument
    option("settings", nargs="*", metavar="RECIPE | key=value")
    option("--curricula", default="", metavar="A,B,C", help="an arm for each")
    option("--arm", action="append", default=[], metavar="NAME:key=value,...", help="another arm")
    option("--seeds", metavar="S,S,S", help="of every arm: 0,1,2 (default), 0-4")
    option("--baseline", metavar="NAME", help=f"the arm to compare with ({BASELINE}, or the first)")
    option("--jobs", type=int, metavar="N", help="runs at a time (one, or one on each GPU)")
    option("--discard", action="store_true", help="delete a run's checkpoints when it is finished")
    option("--out", type=Path, required=True, metavar="DIR", help="folder of the comparison")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Train what is left of a comparison, and write its table."""
    require(chosen.jobs is None or chosen.jobs >= 1, "--jobs", chosen.jobs, "use at least 1")
    plan, whole = _plan(chosen), True
    names, seeds = _arms(chosen.out, plan)
    baseline = chosen.baseline or (BASELINE if BASELINE in names else names[0])
    if baseline not in names:
        raise MetisError(f"--baseline {baseline!r}: there are {', '.join(names)}")
    missing: dict[str, str] = {}
    if plan is not None:
        missing, whole = _train(plan, chosen)
        plan = saved(chosen.out)
    try:
        text = _table(chosen.out, plan, baseline, names, seeds, missing)
    except MetisError as error:
        if whole:
            raise
        print(f"metis: no table yet: {error}", file=sys.stderr)
        return 130
    with state.atomic(chosen.out / "comparison.md") as file:
        file.write(text.encode())
    print(f"\n{text}\ncomparison: {chosen.out / 'comparison.md'}")
    return 130 if not whole else 1 if missing else 0


def _plan(chosen: argparse.Namespace) -> Plan | None:
    """The runs to train: arms of the command line joined with those of the folder."""
    recipe, settings = config.parse(chosen.settings)
    arms = parse_arms(chosen.curricula, chosen.arm)
    earlier, seeds = saved(chosen.out), tuple(parse_seeds(chosen.seeds or SEEDS))
    if not arms:
        if chosen.settings or (chosen.seeds and earlier is None):
            raise MetisError("no arms to compare: name some with --curricula or --arm")
        if earlier is None or not chosen.seeds:
            return earlier
        return replace(earlier, seeds=tuple(sorted({*earlier.seeds, *seeds})))
    plan = Plan(str(recipe or ""), tuple(settings), tuple(arms), seeds).on_the_same_prompts()
    return plan.joined(earlier) if earlier else plan


def _train(plan: Plan, chosen: argparse.Namespace) -> tuple[dict[str, str], bool]:
    """Runs that are not finished, with the reason, and False where they were interrupted."""
    from rich.console import Console

    from metis.compare.schedule import Schedule, devices, pending
    from metis.compare.view import ComparisonView
    from metis.engines import ENGINES

    configs = plan.configs()
    runs, gpus = pending(plan, configs, chosen.out), devices()
    if any(ENGINES[found.engine_name].launch for found in configs.values()):
        gpus = []  # an engine that sees to its devices itself has them all
    jobs = chosen.jobs or max(1, len(gpus))
    plan = replace(plan, finished=tuple({*plan.finished} - {run.name for run in runs}))
    console = Console(soft_wrap=True, markup=False, highlight=False)
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
    left = {run.name: "not finished" for run in pending(kept.plan, configs, chosen.out)}
    failed = {name: f"failed: {why}" for name, why in schedule.failures.items()}
    return left | failed, not schedule.stopped


@dataclass
class Kept:
    """A plan on disk that notes which runs are finished, and drops their checkpoints if told to."""

    plan: Plan
    out: Path
    discard: bool

    def finish(self, run: str) -> None:
        self.plan = replace(self.plan, finished=tuple({*self.plan.finished, run}))
        self.plan.save(self.out)
        if self.discard:
            shutil.rmtree(self.out / run / "checkpoints", ignore_errors=True)


def _arms(out: Path, plan: Plan | None) -> tuple[list[str], list[int]]:
    """Arms and seeds of the plan; without one, of the folders named ARM-SEED."""
    if plan is not None:
        return [arm.name for arm in plan.arms], list(plan.seeds)
    runs = [re.fullmatch(r"(.+)-(\d+)", path.parent.name) for path in out.glob("*/config.json")]
    found = sorted((match[1], int(match[2])) for match in runs if match)
    if not found:
        raise MetisError(
            f"--out {str(out)!r} has no runs: name arms with --curricula or --arm to train some"
        )
    return list(dict.fromkeys(name for name, _ in found)), sorted({seed for _, seed in found})


def _table(
    out: Path,
    plan: Plan | None,
    baseline: str,
    names: list[str],
    seeds: list[int],
    missing: Mapping[str, str],
) -> str:
    from metis.compare.measures import find, measure
    from metis.compare.table import Comparison, markdown

    found = find(out, names, seeds, missing)
    if baseline not in found:
        raise MetisError(f"the baseline {baseline!r} has no finished run")
    measured = {name: measure(name, folders) for name, folders in found.items()}
    arms = [arm for name, arm in measured.items() if name != baseline]
    untimed = "" if plan else "It is not known whether runs had a device of their own"
    if plan and plan.crowded:
        untimed = "Runs shared a device"
    lines = [f"{name} {why}" for name, why in missing.items()]
    return markdown(Comparison(measured[baseline], arms, untimed, lines))
