"""The replication's additions over generated tokens, at the seeds that all variants have."""

from pathlib import Path

import curves
import replication_tables as tables

DRAWN = {
    "readout": "readout",
    "uniform": "uniform sampling",
    "direct": "direct",
    "digits": "rule on digits",
    "sec": "SEC",
}
"""The judges, what they are compared with, and what reads the difficulty off the prompt."""
COVER = 0.0, 1.0


def figure(folder: Path) -> str:
    """Both pools side by side, as an SVG file."""
    columns = []
    for pool, title in tables.POOLS.items():
        shared = tables.shared(folder / pool)
        shown = {label: shared[name] for name, label in DRAWN.items()}
        titles = f"accuracy, {title}", f"informative groups, {title}"
        columns.append(curves.pair(shown, *titles, COVER))
    said = "Held-out accuracy on additions, and the share of informative groups"
    return curves.grid(columns, f"{said}, over generated tokens: every run, and means over runs")
