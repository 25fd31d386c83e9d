"""Five training sets, from 0% to 97% all-fail prompts: what each curriculum costs beside uniform.

All-fail prompts (`hopeless` in the names of folders and recipes) are those far too hard for the
model: additions of numbers with five to eight digits.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from metis.comparisons.measures import AXES as ALL_AXES
from metis.comparisons.measures import MeasuredVariant, find, measure
from metis.comparisons.significance import BootstrapInterval, cost_to_common_best, observed
from metis.report.panels import Axes, Line
from metis.report.svg import HEIGHT, WIDTH, draw
from metis.run.recorded import Series
from metis.text import markdown_table

AXES = ALL_AXES[:4]
"""All but seconds, which mean nothing since the runs shared a GPU."""
ARMS = ("uniform", "metis", "readout", "probe", "mopps", "dapo", "oracle")
"""In the order of the table: those that choose before rollouts, then those that choose after."""
MARGIN = 14
KEY = 66, 168
"""Left and top of the figure's key: below the lines, which fall to the right."""
STYLE = """
svg { --ground: #fff; --ink: #1b1f27; --soft: #5a6373; --faint: #e3e6eb;
  --c0: #0072b2; --c1: #d55e00; --c2: #00855f; --c3: #b1508a; --c4: #b07a00;
  background: var(--ground); font: 12.5px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
@media (prefers-color-scheme: dark) { svg {
  --ground: #14171c; --ink: #e8eaee; --soft: #9aa4b4; --faint: #2f353f;
  --c0: #58aee6; --c1: #ff8b45; --c2: #35c79a; --c3: #e08cbc; --c4: #edb33d; } }
text { fill: var(--soft); } .axis { fill: var(--ink); }
.end { text-anchor: end; } .middle { text-anchor: middle; }
path { fill: none; stroke: var(--faint); } .base { stroke: var(--soft); }
.reference { stroke: var(--soft); stroke-dasharray: 5 4; } .line { stroke-width: 2; }
.raw { opacity: 0.5; }
.raw.c0 { stroke: var(--c0); } .raw.c1 { stroke: var(--c1); } .raw.c2 { stroke: var(--c2); }
.raw.c3 { stroke: var(--c3); } .raw.c4 { stroke: var(--c4); }
.line.c0 { stroke: var(--c0); } .c0:not(path) { fill: var(--c0); }
.line.c1 { stroke: var(--c1); } .c1:not(path) { fill: var(--c1); }
.line.c2 { stroke: var(--c2); } .c2:not(path) { fill: var(--c2); }
.line.c3 { stroke: var(--c3); } .c3:not(path) { fill: var(--c3); }
.line.c4 { stroke: var(--c4); } .c4:not(path) { fill: var(--c4); }
"""
"""Of a file of its own: light and dark by the reader's preference."""
FIRST = 10
"""The first steps, whose groups show how much of a training set is informative at first."""


@dataclass(frozen=True)
class Pool:
    """A training set; each curriculum's cost to the highest accuracy that it and uniform reach."""

    hopeless: int
    informative: float
    best: Mapping[str, float]
    """The best accuracy of each curriculum."""
    costs: Mapping[str, Mapping[str, BootstrapInterval]]
    smooth: Mapping[str, bool]
    """Curricula whose curves, and uniform's beside them, are smoothed."""


def measured_pools(evidence: Path) -> list[Pool]:
    """The training sets of `when-it-pays`, by their share of all-fail prompts."""
    folders = {
        int(folder.name.removeprefix("hopeless-")): folder
        for folder in evidence.glob("when-it-pays/hopeless-*")
    }
    return [_pool(share, folders[share]) for share in sorted(folders)]


def _pool(hopeless: int, folder: Path) -> Pool:
    runs = [re.fullmatch(r"(.+)-(\d+)", path.parent.name) for path in folder.glob("*/config.json")]
    names = sorted({match[1] for match in runs if match}, key=ARMS.index)
    seeds = sorted({int(match[2]) for match in runs if match})
    variants = {name: measure(name, paths) for name, paths in find(folder, names, seeds).items()}
    baseline = variants.pop("uniform")
    early = [record.series("batch/informative").y[:FIRST] for record in baseline.records]
    return Pool(
        hopeless,
        float(np.mean(early)),
        {variant.name: variant.best[1].mean for variant in (baseline, *variants.values())},
        {name: _costs(variant, baseline) for name, variant in variants.items()},
        {name: _smooth(variant, baseline) for name, variant in variants.items()},
    )


def _costs(variant: MeasuredVariant, baseline: MeasuredVariant) -> dict[str, BootstrapInterval]:
    return {
        axis: cost_to_common_best(variant.runs(axis), baseline.runs(axis), np.random.default_rng(0))
        for axis in AXES
    }


def _smooth(variant: MeasuredVariant, baseline: MeasuredVariant) -> bool:
    return bool(observed(variant.runs("steps"), baseline.runs("steps")).smooth[0])


def table(pools: list[Pool]) -> str:
    """Every training set and curriculum, with costs and their intervals."""
    rows = [["all-fail", "informative at first", "curriculum", "best kept", "curves", *AXES]]
    for pool in pools:
        shares = [f"{pool.hopeless}%", f"{pool.informative:.1%}"]
        rows.append([*shares, "uniform", f"{pool.best['uniform']:.3f}", "", *["1"] * len(AXES)])
        for name, costs in pool.costs.items():
            best, curves = f"{pool.best[name]:.3f}", "smoothed" if pool.smooth[name] else "raw"
            rows.append(["", "", name, best, curves, *(_written(costs[axis]) for axis in AXES)])
    return markdown_table(rows)


SHORT = (AXES[1], AXES[3])
READING = {"metis": "METIS", "probe": "probe"}
"""Curricula that read every candidate before rollouts."""


def short_table(pools: list[Pool]) -> str:
    """METIS beside the probe on every training set."""
    heads = [f"{axis}: {name}" for axis in SHORT for name in READING.values()]
    rows = [["all-fail prompts", *heads]]
    for pool in pools:
        ratios = [pool.costs[variant][axis].value for axis in SHORT for variant in READING]
        rows.append([f"{pool.hopeless}%", *(f"{ratio:.2f}" for ratio in ratios)])
    return markdown_table(rows)


def _written(ratio: BootstrapInterval) -> str:
    between = "" if math.isnan(ratio.low) else f" [{ratio.low:.2f}, {ratio.high:.2f}]"
    return f"{ratio.value:.2f}{between}"


DRAWN = {"metis": "METIS", "probe": "probe", "mopps": "MoPPS"}
"""Curricula that choose before rollouts; those that choose after spend several times as many."""


def figure(pools: list[Pool]) -> str:
    """Rollouts to equal accuracy by the share of all-fail prompts, as an SVG file."""
    lines = tuple(
        Line(
            name,
            colour,
            Series(
                tuple(float(pool.hopeless) for pool in pools),
                tuple(pool.costs[variant]["rollouts"].value for pool in pools),
            ),
            markers=True,
        )
        for colour, (variant, name) in enumerate(DRAWN.items())
        if all(variant in pool.costs for pool in pools)
    )
    axes = Axes(
        "rollouts to equal accuracy (uniform = 1)",
        "all-fail prompts, % of the training set",
        lines,
        cover=(0.0,),
        reference=1.0,
        across=(0.0, 100.0),
    )
    key = [(f"● {line.label}", f"key c{line.colour}") for line in lines]
    key.append(("┄ uniform sampling", "key"))
    labels = "".join(
        f'<text x="{KEY[0]}" y="{KEY[1] + 17 * place}" class="{style}">{text}</text>'
        for place, (text, style) in enumerate(key)
    )
    return standalone(draw(axes), labels)


def standalone(
    chart: str, labels: str, wide: int = WIDTH, shown: int = 640, high: int = HEIGHT
) -> str:
    """A chart of the report as a file of its own, with its style sheet and a margin."""
    box = f"-{MARGIN} -{MARGIN} {wide + 2 * MARGIN} {high + 2 * MARGIN}"
    head, rest = chart.removesuffix("</svg>").split(">", 1)
    head = re.sub('viewBox="[^"]*"', f'viewBox="{box}" width="{shown}"', head)
    head = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"')
    return f"{head}><style>{STYLE}</style>{rest}{labels}</svg>\n"
