"""Reads a comparison from its folder: variants, their baseline, and what is missing."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from metis.comparisons import benchmarks
from metis.comparisons.benchmarks import Evaluated
from metis.comparisons.crossing import FEWEST_TESTS
from metis.comparisons.ending import look
from metis.comparisons.measures import AXES, MeasuredVariant, measured
from metis.comparisons.plan import BASELINE, FILE, ComparisonPlan
from metis.errors import Damaged, MetisError
from metis.run import comparable
from metis.run.recorded import Recorded

Runs = dict[str, dict[int, Recorded]]
"""Runs by variant and seed."""

BUDGETS = {"tokens": "generated tokens", "processed": "total tokens"}
"""Budgets of tokens, and the axis that each is spent on."""


@dataclass(frozen=True)
class Comparison:
    """Variants beside their baseline; `untimed` is why seconds cannot be compared, if so."""

    baseline: MeasuredVariant
    variants: Sequence[MeasuredVariant]
    untimed: str = ""
    missing: Sequence[str] = ()
    """Runs that are planned and not finished, each with the reason."""
    apart: Sequence[str] = ()
    """Runs that are validated otherwise than the baseline's, each with what differs."""
    instead: str = ""
    """The reason for another baseline than the planned one, if any."""
    evaluations: Mapping[str, Evaluated] = field(default_factory=dict)
    """Evaluations after training, by run."""

    @property
    def timed(self) -> bool:
        return not self.untimed

    @property
    def everyone(self) -> list[MeasuredVariant]:
        return [self.baseline, *self.variants]

    def tested_alike(self, variant: MeasuredVariant) -> MeasuredVariant:
        """A variant at the tests that all have, for as long as they go on; where these are too few,
        at its own."""
        common = set.intersection(*(set(each.steps) for each in self.everyone))
        return variant.tested_as(*self.everyone) if len(common) >= FEWEST_TESTS else variant

    def without(self, error: Damaged) -> "Comparison":
        """The comparison without a run whose log is damaged."""
        kept = {}
        for variant in self.everyone:
            runs = zip(variant.seeds, variant.records, strict=True)
            left = {seed: run for seed, run in runs if run.folder != error.folder}
            if left:
                kept[variant.name] = (
                    variant if len(left) == len(variant.seeds) else measured(variant.name, left)
                )
        if self.baseline.name not in kept:
            raise error
        baseline = kept.pop(self.baseline.name)
        missing = [*self.missing, f"{error.folder.name} damaged: {error.what}"]
        return replace(self, baseline=baseline, variants=list(kept.values()), missing=missing)

    @property
    def axes(self) -> tuple[str, ...]:
        """The costs that are compared: steps last, and not where they are as rollouts."""
        costs = AXES[1:] if self.timed else AXES[1:-1]
        return costs if self.rollouts_a_step else (*costs, AXES[0])

    @property
    def rollouts_a_step(self) -> float:
        """Rollouts per step if all steps of all variants have the same number, else 0."""
        pairs = [
            pair
            for variant in self.everyone
            for row in variant.spent["rollouts"]
            for pair in zip(variant.spent["steps"][0], row, strict=True)
        ]
        steps, rollouts = np.array(pairs).T
        each = rollouts[-1] / steps[-1] if steps[-1] else 0.0
        return float(each) if np.allclose(rollouts, each * steps) else 0.0

    @property
    def lead(self) -> str:
        """The cost that verdicts are about: the tokens that are the budget of all runs, or else
        rollouts; steps where neither was counted."""
        runs = [run for variant in self.everyone for run in variant.records]
        budgets = [
            axis for key, axis in BUDGETS.items() if all(run.config.get(key) for run in runs)
        ]
        axes = [*(budgets if runs else []), "rollouts"]
        return next((axis for axis in axes if self.counted(axis)), "steps")

    def counted(self, axis: str) -> bool:
        return all(variant.spent[axis].any() for variant in self.everyone)


def is_comparison(folder: Path) -> bool:
    """True for the folder of a comparison: it has a plan, or runs named VARIANT-SEED."""
    if (folder / FILE).exists():
        return True
    return not (folder / "config.json").exists() and bool(_runs(folder))


def variants_and_seeds(out: Path, plan: ComparisonPlan | None) -> tuple[list[str], list[int]]:
    """Variants and seeds of the plan; without one, of the folders named VARIANT-SEED."""
    if plan is not None:
        return [variant.name for variant in plan.variants], list(plan.seeds)
    runs = _runs(out)
    if not runs:
        raise MetisError(
            f"--out {str(out)!r} has no runs: name variants with --curricula or --variant, to "
            "train some"
        )
    return list(dict.fromkeys(name for name, _ in runs)), sorted({seed for _, seed in runs})


def _runs(out: Path) -> list[tuple[str, int]]:
    runs = [re.fullmatch(r"(.+)-(\d+)", path.parent.name) for path in out.glob("*/config.json")]
    return sorted((match[1], int(match[2])) for match in runs if match)


def require_variant(out: Path, plan: ComparisonPlan | None, baseline: str) -> None:
    """Refuse a --baseline that is no variant of the comparison."""
    names, _ = variants_and_seeds(out, plan)
    if baseline and baseline not in names:
        raise MetisError(f"--baseline {baseline!r}: there are {', '.join(names)}")


def read_comparison(
    out: Path,
    plan: ComparisonPlan | None,
    failed: Mapping[str, str] | None = None,
    baseline: str = "",
    any_baseline: bool = False,
) -> Comparison:
    """Measure the finished runs of a folder.

    `failed` says of some runs why they are not; where `any_baseline` will do, the first variant
    with a finished run stands in for a baseline that has none.
    """
    names, seeds = variants_and_seeds(out, plan)
    runs, missing = gathered(out, names, seeds, planned=plan is not None)
    failed = failed or {}
    missing |= {name: why for name, why in failed.items() if name in missing}
    if plan is not None:
        missing = {name: why + _remedy(plan, name, why) for name, why in missing.items()}
    finished = [f"{name}-{seed}" for name, seeds in runs.items() for seed in seeds]
    evaluations, without = benchmarks.read(out, finished)
    if plan is not None and plan.suite.names:
        missing |= {name: failed.get(name, why) for name, why in without.items()}
    usual = BASELINE if BASELINE in names else names[0]
    baseline, instead = baseline or (plan.baseline if plan else "") or usual, ""
    if baseline not in runs:
        if not any_baseline or not runs:
            raise MetisError(_no_baseline(out, plan, baseline, missing))
        instead = f"{baseline} has no finished run: variants are compared with {next(iter(runs))}"
        baseline = next(iter(runs))
    runs, apart = validated_alike(runs, baseline)
    variants = {name: measured(name, records) for name, records in runs.items()}
    others = [variant for name, variant in variants.items() if name != baseline]
    lines = [f"{name} {why}" for name, why in missing.items()]
    untimed = _untimed(plan, list(variants.values()))
    return Comparison(variants[baseline], others, untimed, lines, apart, instead, evaluations)


def validated_alike(runs: Runs, baseline: str) -> tuple[Runs, list[str]]:
    """The runs that are validated as most of the baseline's are; others with what differs."""
    reference = max(comparable.groups(list(runs[baseline].values())), key=len)
    alike: Runs = {}
    apart: dict[str, list[str]] = {}
    for name, seeds in runs.items():
        for seed, run in seeds.items():
            why = next(filter(None, (comparable.why_not(run, other) for other in reference)), "")
            if why:
                apart.setdefault(why, []).append(run.folder.name)
            else:
                alike.setdefault(name, {})[seed] = run
    model = reference[0].folder.name
    return alike, [f"{', '.join(names)}: {why} ({model})" for why, names in apart.items()]


def gathered(
    out: Path, names: Sequence[str], seeds: Sequence[int], planned: bool
) -> tuple[Runs, dict[str, str]]:
    """Finished runs of a folder, and why others are missing; without a plan, only those there."""
    runs: Runs = {}
    missing = {}
    for name in names:
        for seed in seeds:
            folder = out / f"{name}-{seed}"
            if not planned and not (folder / "config.json").exists():
                continue
            run, why = _looked(folder)
            if run is None:
                missing[folder.name] = why
            else:
                runs.setdefault(name, {})[seed] = run
    return runs, missing


def _looked(folder: Path) -> tuple[Recorded | None, str]:
    """A finished run with readable rewards; otherwise None and the reason."""
    run, why = look(folder)
    if run is not None:
        try:
            _ = run.rewards
        except Damaged as error:
            return None, f"damaged: {error.what}"
    return run, why


def _remedy(plan: ComparisonPlan, name: str, why: str) -> str:
    """The remedy for a run that once finished, but whose log no longer says so."""
    if name not in plan.finished or why == "not begun":
        return ""
    return f"; restore it, or delete {name} to train it again"


def _no_baseline(
    out: Path, plan: ComparisonPlan | None, baseline: str, missing: Mapping[str, str]
) -> str:
    of_it = (name for name in missing if re.fullmatch(rf"{re.escape(baseline)}-\d+", name))
    reason = next((f" ({name} {missing[name]})" for name in of_it), "")
    train = f"`metis compare --out {out}` trains what is left; " if plan else ""
    return (
        f"the baseline {baseline!r} has no finished run{reason}: {train}--baseline names another "
        "variant"
    )


def _untimed(plan: ComparisonPlan | None, variants: Sequence[MeasuredVariant]) -> str:
    """The reason that seconds of runs cannot be compared, if any."""
    if plan is None:
        return "It is not known whether runs had a device of their own"
    if plan.crowded:
        return "Runs shared a device"
    lacking = [
        f"{variant.name}-{seed}"
        for variant in variants
        for seed, seconds in zip(variant.seeds, variant.spent["seconds"], strict=True)
        if np.isnan(seconds).any()
    ]
    verb = "lacks" if len(lacking) == 1 else "lack"
    return f"{', '.join(lacking)} {verb} timings" if lacking else ""
