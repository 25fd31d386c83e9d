"""Tables of the replication: how far it is, and what there is of its additions.

Of an item that is not complete only the seeds that all of its variants have are averaged, and no
more is tested than its primary comparisons: the plan reserves every conclusion for the full set.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from metis.comparisons.ending import look
from metis.comparisons.measures import AXES, MeasuredVariant, find, measure
from metis.comparisons.significance import (
    BootstrapInterval,
    difference,
    least_p,
    observed,
    p_of_difference,
)
from metis.comparisons.verdicts import number
from metis.text import markdown_table

ITEMS = {
    "dapo": ("1. DAPO-Math-17k whole, 1.5B", 16),
    "paper-judge": ("2. the paper's own judge, 1.5B: one run at least", 1),
    "additions": ("3. additions with the paper's baselines, 135M", 96),
    "math": ("4. MATH, 1.5B", 12),
    "programs": ("5. programs, 1.5B", 4),
}
"""By folder: the items of the plan, and the runs that it asks for."""
POOLS = {"hopeless-90": "90% all-fail", "hopeless-97": "97% all-fail"}
VARIANTS = {
    "uniform": "uniform",
    "readout": "`readout`",
    "direct": "`direct`",
    "probe": "probe",
    "sec": "SEC",
    "adcl": "ADCL",
    "pcl": "PCL",
    "digits": "rule on digits",
}
PRIMARY = ("readout", "direct")
"""Variants whose comparison with uniform sampling is primary."""
SEEDS = range(6, 12)
BUDGET = range(1, 121)
TRAINING = range(251, 371)
"""Steps that count, and ADCL's first of training."""
LAST = 3
"""Validations that the accuracy at the end is the mean of."""
COSTS = (AXES[1], AXES[2], AXES[3])
NONE = "–"


def state(folder: Path) -> str:
    """The runs of each item: planned, complete, and if the plan lets anything be concluded."""
    there = {run.relative_to(folder).parts[0] for run in folder.rglob("config.json")}
    if unknown := there - ITEMS.keys():
        raise LookupError(f"no item of the plan has the folder {min(unknown)}")
    rows = [["item of the plan", "runs planned", "complete", "may be concluded"]]
    for name, (item, planned) in ITEMS.items():
        runs = [path.parent for path in (folder / name).rglob("config.json")]
        complete = sum(look(run)[0] is not None for run in runs)
        said = "not begun" if not runs else "nothing yet" if complete < planned else "yes"
        rows.append([item, str(planned), str(complete), said])
    return markdown_table(rows)


@cache
def variants(folder: Path) -> dict[str, MeasuredVariant]:
    """All runs of a pool, by variant."""
    return {name: measure(name, paths) for name, paths in find(folder, [*VARIANTS], SEEDS).items()}


def shared(folder: Path) -> dict[str, MeasuredVariant]:
    """The runs of the seeds that all variants have, at the validations that all have."""
    seeds = set.intersection(*(set(variant.seeds) for variant in variants(folder).values()))
    found = find(folder, [*VARIANTS], sorted(seeds))
    same = {name: measure(name, paths) for name, paths in found.items()}
    return {name: variant.at_tests_of(*same.values()) for name, variant in same.items()}


def additions(folder: Path) -> str:
    """The variants of a pool at the seeds that all have."""
    at_once = shared(folder)
    baseline = at_once["uniform"]
    seeds = ", ".join(map(str, baseline.seeds))
    heads = ["curriculum", f"runs of {len(SEEDS)}", f"mean accuracy, seeds {seeds}"]
    heads += ["minus uniform", "p (least)", "at the end", "informative groups"]
    rows = [[*heads, *COSTS]]
    for name, variant in at_once.items():
        there = str(len(variants(folder)[name].seeds))
        rows.append([VARIANTS[name], there, *_cells(variant, baseline)])
        if name == "adcl":
            rows.append(["ADCL, without measuring", there, *_after_measuring(folder, variant)])
    return markdown_table(rows)


def _cells(variant: MeasuredVariant, baseline: MeasuredVariant) -> Iterator[str]:
    mine, its = _means(variant, BUDGET), _means(baseline, BUDGET)
    yield ", ".join(f"{mean:.3f}" for mean in mine)
    if variant.name in PRIMARY:
        yield _signed(difference(mine[:, None], its[:, None], _rng()))
        yield _tested(mine, its)
    else:
        yield from (NONE, NONE)
    yield f"{_end(variant).mean():.3f}"
    yield _signal(variant, BUDGET)
    yield from (_ratio(variant, baseline, axis) for axis in COSTS)


def _after_measuring(folder: Path, variant: MeasuredVariant) -> list[str]:
    """ADCL by its own steps of training."""
    whole = measure(variant.name, find(folder, ["adcl"], variant.seeds)["adcl"])
    means = ", ".join(f"{mean:.3f}" for mean in _means(whole, TRAINING))
    trained = [step for step in whole.steps if step in TRAINING][-LAST:]
    end = whole.accuracy[:, [whole.steps.index(step) for step in trained]].mean()
    signal = _signal(whole, TRAINING)
    return [means, NONE, NONE, f"{end:.3f}", signal, *[NONE] * len(COSTS)]


def _means(variant: MeasuredVariant, steps: range) -> np.ndarray:
    """The accuracy of each run, over its validations in these steps."""
    counted = [place for place, step in enumerate(variant.steps) if step in steps]
    return np.asarray(variant.accuracy[:, counted].mean(axis=1))


def _signal(variant: MeasuredVariant, steps: range) -> str:
    """The share of informative groups among those that were trained on."""
    series = [record.series("batch/informative") for record in variant.records]
    rows = [[y for x, y in zip(*each, strict=True) if x in steps] for each in series]
    return f"{np.mean([np.mean(row) for row in rows]):.1%}" if all(rows) else NONE


def _end(variant: MeasuredVariant) -> np.ndarray:
    return np.asarray(variant.accuracy[:, -LAST:].mean(axis=1))


def _tested(mine: np.ndarray, its: np.ndarray) -> str:
    p = p_of_difference(mine.tolist(), its.tolist(), _rng())
    return f"{number(p)} ({number(least_p(len(mine), len(its)))})"


def _ratio(variant: MeasuredVariant, baseline: MeasuredVariant, axis: str) -> str:
    """The cost to uniform sampling's end level, over its own; none where it does not keep that."""
    if variant is baseline:
        return "1"
    both = observed(variant.runs(axis), baseline.runs(axis))
    mine, its = (float(cost[0]) for cost in both.costs_of(_end(baseline).mean(keepdims=True)))
    if np.isinf(its):
        return NONE
    return f"{mine / its:.2f}" if np.isfinite(mine) else "not reached"


def _signed(change: BootstrapInterval) -> str:
    return f"{change.value:+.3f} [{change.low:+.3f}, {change.high:+.3f}]"


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)
