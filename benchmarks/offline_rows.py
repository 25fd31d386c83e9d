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
MEAN, LEVEL, PROBE = "mean", "level label", "probe"


def readout(**preference: Any) -> dict[str, Any]:
    """The judge that is a regression on the policy's states, with these knobs."""
    return metis({"mode": "readout"}, preference=preference)


LEARNED: dict[str, dict[str, Any]] = {
    PROBE: probe(),
    "probe, logistic": probe(regression="logistic"),
    "probe, three layers": probe(depths=THIRDS),
    "readout": readout(),
    "readout of the prompt": readout(readout="prompt"),
    "readout of the judge prompt": readout(readout="judge"),
    "readout, ridge": readout(regression="ridge"),
    "readout, last layer": readout(depths=[1.0]),
    "readout, three layers": readout(depths=THIRDS),
    "readout, K = 3": readout() | {"examples": 3},
    "readout of the judge prompt, K = 3": readout(readout="judge") | {"examples": 3},
    "readout, ridge, K = 3": readout(regression="ridge") | {"examples": 3},
    "readout, harder side": readout(harder=1.0),
    "readout, judge trained": metis(PASSES, preference={"readout": "both", "mix": 1.0}),
    "mean of both ranks": metis(PASSES, preference={"readout": "both"}),
    "log score": metis(),
    "log score, passes": metis(PASSES),
    "exact": metis({"loss": "exact"}),
    "REINFORCE": metis({"loss": "reinforce"}),
    "MASA's reward": metis({**PASSES, "loss": "reinforce", "reward": "masa"}),
    "passes and length": metis({"scale": "passes_length"}),
    "K = 0": metis(PASSES, examples=0),
    "K = 6": metis(PASSES, examples=6),
    "exemplars at the frontier": metis(PASSES, exemplars="frontier"),
    "exemplars like the candidates": metis(PASSES, exemplars="similar"),
    "harder side": metis(PASSES, preference={"harder": 1.0}),
}
"""Settings of a curriculum for each judge that learns."""

ROWS = (MEAN, LEVEL, *LEARNED)

UNSCALED = {name for name in LEARNED if "ranks" in name or "harder" in name}
"""Judges whose scores are not variances, so that they have no calibration."""
