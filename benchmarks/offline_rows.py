"""The judges that `judge_offline.py` compares: settings of curricula, and two without a model."""

from typing import Any

ALONE = {"multiplier": 1, "explore": 1.0}
"""Labels come as they are drawn: nothing is chosen while a judge learns offline."""

EVERY = 1 << 20
"""Steps whose labels a readout keeps: all."""

THIRDS = [1 / 3, 2 / 3, 1.0]


def metis(judge: dict[str, Any] | None = None, **knobs: Any) -> dict[str, Any]:
    """METIS with these knobs; its gradient has no policy's to be bounded by."""
    preference = {"window": EVERY, **knobs.pop("preference", {})}
    section = {"name": "metis", **ALONE, "trial": 0, "preference": preference, **knobs}
    return section | {"judge": {"share": 0.0, **(judge or {})}}


def probe(**knobs: Any) -> dict[str, Any]:
    return {"name": "probe", **ALONE, "window": EVERY, **knobs}


PASSES = {"scale": "passes"}
UNTRAINED = {**PASSES, "weight": 0.0}
BOTH = {"readout": "prompt", "mix": 0.5}

MEAN, LEVEL, PROBE = "mean", "level label", "probe"

LEARNED: dict[str, dict[str, Any]] = {
    PROBE: probe(),
    "log score": metis(),
    "log score, passes": metis(PASSES),
    "exact": metis({"loss": "exact"}),
    "REINFORCE": metis({"loss": "reinforce"}),
    "MASA's reward": metis({**PASSES, "loss": "reinforce", "reward": "masa"}),
    "mean of both ranks": metis(preference=BOTH),
    "mean of both ranks, passes": metis(PASSES, preference=BOTH),
    "readout of the judge prompt": metis(PASSES, preference={"readout": "judge", "mix": 1.0}),
    "the same, judge untrained": metis(UNTRAINED, preference={"readout": "judge", "mix": 1.0}),
    "probe, three layers": probe(depths=THIRDS),
    "judge prompt, three layers": metis(
        UNTRAINED, preference={"readout": "judge", "mix": 1.0, "depths": THIRDS}
    ),
    "passes and length": metis({"scale": "passes_length"}),
    "K = 0": metis(PASSES, examples=0),
    "K = 6": metis(PASSES, examples=6),
    "exemplars at the frontier": metis(PASSES, exemplars="frontier"),
    "exemplars like the candidates": metis(PASSES, exemplars="similar"),
    "harder side": metis(PASSES, preference={"harder": 1.0}),
}
"""Settings of a curriculum for each judge that learns."""

ROWS = (MEAN, LEVEL, *LEARNED)

UNSCALED = {name for name in LEARNED if name.startswith(("mean of both", "harder"))}
"""Judges whose scores are not variances, so that they have no calibration."""
