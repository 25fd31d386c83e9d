"""Named settings of a curriculum's knobs. Without a preset, the defaults of its class hold."""

from typing import Any

METIS_PAPER: dict[str, Any] = {
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
"""Algorithm 1 to the letter."""

SEC_PAPER: dict[str, Any] = {
    "categories": "auto",
    "arms": 10,
    "alpha": 0.5,
    "tau": 0.4,
    "draw": "slot",
    "objective": "raw",
    "decay_unseen": False,
}
"""SEC as METIS runs it as a baseline. The paper does not say what its ten categories are, quantiles
of difficulty are a guess, and clusters of hidden states where the data has none: to measure them
would take four rollouts of every prompt before the first update, and tell five pass rates apart for
ten arms. Its advantages are undivided; SEC has no use for its pool multiplier. The text can also be
read as one category for a whole step (`draw=step`); the released code, which it says it follows,
draws one for each slot."""

ADCL_PAPER: dict[str, Any] = {"chunks": 8, "measure": 4, "difficulty": "auto"}
"""ADCL as METIS compares with it (App. A.6)."""

PCL_PAPER: dict[str, Any] = {
    "multiplier": 8,
    "target": 0.5,
    "explore": 0.0,
    "backbone": "separate",
    "hidden": 512,
    "loss": "mse",
    "learning_rate": 1e-4,
    "minibatch": 64,
}
"""PCL as METIS compares with it (App. A.6)."""

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "metis": {"recommended": {}, "paper": METIS_PAPER},
    "uniform": {"published": {}, "paper": {}},
    "adcl": {"published": {}, "paper": ADCL_PAPER},
    "sec": {"published": {}, "paper": SEC_PAPER},
    "pcl": {"published": {}, "paper": PCL_PAPER},
}
