"""The runs on mathematics over generated tokens: each run's validations, and their means."""

from pathlib import Path

import curves
import training_tables

SETS = {"math": "MATH", "dapo-hard": "the harder part of DAPO"}
DRAWN = {"readout": "readout", "uniform": "uniform sampling", "probe": "probe"}
COVER = 0.34, 0.50


def figure(folder: Path) -> str:
    """Both training sets side by side, as an SVG file."""
    columns = []
    for name, title in SETS.items():
        runs = training_tables.all_runs(folder / name)
        shown = {label: runs[key] for key, label in DRAWN.items()}
        titles = f"accuracy, trained on {title}", f"informative groups, {title}"
        columns.append(curves.pair(shown, *titles, COVER))
    said = "Accuracy on 200 problems of MATH-500, and the share of informative groups"
    return curves.grid(columns, f"{said}, over generated tokens: every run, and means over runs")
