"""A comparison as its folder has it: arms beside their baseline, and what is missing."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from metis.compare.arms import BASELINE
from metis.compare.measures import AXES, Measured, find, measure
from metis.compare.plan import FILE, Plan
from metis.errors import MetisError
from metis.report import curves
from metis.run.budget import Account, Budget


@dataclass(frozen=True)
class Comparison:
    """Arms beside their baseline; `untimed` is why seconds cannot be compared, if they cannot."""

    baseline: Measured
    arms: Sequence[Measured]
    untimed: str = ""
    missing: Sequence[str] = ()
    """Runs that are planned and not finished, each with the reason where there is one."""

    @property
    def timed(self) -> bool:
        return not self.untimed

    @property
    def everyone(self) -> list[Measured]:
        return [self.baseline, *self.arms]

    @property
    def axes(self) -> tuple[str, ...]:
        return AXES if self.timed else AXES[:-1]


def is_comparison(folder: Path) -> bool:
    """True of the folder of a comparison: it has a plan, or runs named ARM-SEED and is none."""
    if (folder / FILE).exists():
        return True
    return not (folder / "config.json").exists() and bool(_runs(folder))


def arms_and_seeds(out: Path, plan: Plan | None) -> tuple[list[str], list[int]]:
    """Arms and seeds of the plan; without one, of the folders named ARM-SEED."""
    if plan is not None:
        return [arm.name for arm in plan.arms], list(plan.seeds)
    runs = _runs(out)
    if not runs:
        raise MetisError(
            f"--out {str(out)!r} has no runs: name arms with --curricula or --arm to train some"
        )
    return list(dict.fromkeys(name for name, _ in runs)), sorted({seed for _, seed in runs})


def _runs(out: Path) -> list[tuple[str, int]]:
    runs = [re.fullmatch(r"(.+)-(\d+)", path.parent.name) for path in out.glob("*/config.json")]
    return sorted((match[1], int(match[2])) for match in runs if match)


def read(
    out: Path, plan: Plan | None, missing: Mapping[str, str], baseline: str = ""
) -> Comparison:
    """Measure the finished runs of a folder."""
    names, seeds = arms_and_seeds(out, plan)
    usual = BASELINE if BASELINE in names else names[0]
    baseline = baseline or (plan.baseline if plan else "") or usual
    runs = find(out, names, seeds, missing)
    if baseline not in runs:
        planned = [f"{baseline}-{seed}" for seed in seeds]
        reason = next((f" ({name} {missing[name]})" for name in planned if name in missing), "")
        raise MetisError(
            f"the baseline {baseline!r} has no finished run{reason}: the same command trains it, "
            "--baseline names another arm"
        )
    measured = {name: measure(name, folders) for name, folders in runs.items()}
    arms = [arm for name, arm in measured.items() if name != baseline]
    untimed = "" if plan else "It is not known whether runs had a device of their own"
    if plan and plan.crowded:
        untimed = "Runs shared a device"
    lines = [f"{name} {why}" for name, why in missing.items()]
    return Comparison(measured[baseline], arms, untimed, lines)


def unfinished(out: Path, plan: Plan | None) -> dict[str, str]:
    """The runs of a plan that have not come to the end of their own budget, by their logs."""
    missing = {}
    for name in (arm.run(seed) for arm, seed in (plan.runs() if plan else ())):
        if not (out / name / "metrics.jsonl").exists():
            missing[name] = "not begun"
        elif _spent(curves.read(out / name)) < 1:
            missing[name] = "not finished"
    return missing


def _spent(run: curves.Recorded) -> float:
    """The share of its budget that a run has spent."""
    last = run.metrics[-1] if run.metrics else {}
    limits = {part.name: run.config.get(part.name) or 0 for part in fields(Budget)}
    counted = {
        key.removeprefix("total/").replace("_", "/", 1): int(value)
        for key, value in last.items()
        if key.startswith("total/")
    }
    return Account(Budget(**limits), run.steps, run.elapsed, Counter(counted)).fraction
