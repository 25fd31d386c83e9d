"""Settings of METIS by name, beside its defaults."""

from typing import Any

PAPER: dict[str, Any] = {
    "multiplier": 8,
    "examples": 3,
    "exemplars": "spread",
    "ema": 0.95,
    "ties": "random",
    "explore": 0.0,
    "failures": "zero",
    "memory": 1,
    "anchor": False,
    "order": "ascending",
    "warmup": False,
    "replay": 0,
    "trial": 0,
    "judge": {
        "mode": "reason",
        "layout": "single",
        "scale": "variance",
        "loss": "reinforce",
        "reward": "quadratic",
        "offsets": False,
        "share": 0.0,
        "train": 1.0,
        "baseline": "zero",
        "target": "variance",
        "aggregate": "mean",
        "ratio": "none",
        "weight": 0.01,
        "max_tokens": 512,
        "temperature": 1.0,
    },
    "preference": {"readout": "none", "harder": 0.0},
}
"""METIS as the paper has it; `metis.py` lists what it leaves open, or has otherwise."""

READOUT: dict[str, Any] = {"judge": {"mode": "readout"}}
"""METIS whose judgments are read from the policy's hidden states."""
