"""The figure of pool occupancy: the share of each category among the prompts trained on."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from metis.report.panels import Axes, Figure
from metis.report.subjects import Subject
from metis.run import folder as run_folder
from metis.run.recorded import Recorded, Series

NAME = "occupancy"
MOST = 12
"""Categories that have a panel; of more, the rarest share one."""
POOL = "share of the pool"
CAPTION = (
    "Share of each category among the prompts of a step. A curve that stays at zero, below the "
    "dashed share of the pool, is a category that is starved; one far above it crowds out others."
)
UNKNOWN = " The share of the pool is not drawn where runs did not record it, or differ in it."

Shares = Mapping[int, Counter[str]]
"""Groups of each step by category."""


def figure(subjects: Sequence[Subject], window: int) -> Figure | None:
    """A panel for each category; None where no run has more than one."""
    runs = [run for subject in subjects for run in subject.runs]
    counted = {run.folder: _by_step(run) for run in runs}
    pool = _pool(runs)
    totals = Counter(pool)
    for steps in counted.values():
        totals.update(sum(steps.values(), Counter()))
    if len(totals) < 2:
        return None
    whole = sum(pool.values())
    panels = []
    for title, names in _panels(pool or totals).items():

        def share(run: Recorded, names: frozenset[str] = names) -> Series:
            return _share(counted[run.folder], names)

        lines = [subject.line(share, window) for subject in subjects]
        panels.append(
            Axes(
                title,
                "step",
                tuple(line for line in lines if line.series.x),
                cover=(0.0,),
                percent=True,
                reference=sum(pool[name] for name in names) / whole if whole else None,
                reference_label=POOL if whole else "",
            )
        )
    panels = [panel for panel in panels if panel.lines]
    caption = CAPTION if whole else CAPTION + UNKNOWN
    return Figure(NAME, "Pool occupancy", caption, tuple(panels)) if panels else None


def _by_step(run: Recorded) -> Shares:
    steps: dict[int, Counter[str]] = defaultdict(Counter)
    for row in run_folder.read(run.folder, "rollouts", optional=True):
        steps[row["step"]][str(row.get("category", ""))] += 1
    return steps


def _share(steps: Shares, names: frozenset[str]) -> Series:
    places = sorted(steps)
    shares = (sum(steps[step][name] for name in names) / steps[step].total() for step in places)
    return Series(tuple(map(float, places)), tuple(shares))


def _pool(runs: Sequence[Recorded]) -> Counter[str]:
    """Prompts of the pool by category; none where runs do not know it or differ."""
    pools = {tuple(sorted(run.pool.items())) for run in runs}
    return Counter(dict(pools.pop())) if len(pools) == 1 else Counter()


def _panels(counts: Mapping[str, int]) -> dict[str, frozenset[str]]:
    """The categories of each panel: the most frequent alone, in the order of their names."""
    frequent = sorted(counts, key=lambda name: (-counts[name], _order(name)))
    kept = frequent if len(frequent) <= MOST else frequent[: MOST - 1]
    panels = {name or "no category": frozenset({name}) for name in sorted(kept, key=_order)}
    rest = frozenset(frequent[len(kept) :])
    return panels | ({f"{len(rest):,} rarer categories": rest} if rest else {})


def _order(name: str) -> list[tuple[int, int, str]]:
    """Numbers in a name by their size."""
    parts = re.split(r"(\d+)", name)
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts]
