"""The judges that `judge_offline.py` compares: settings of curricula, and two without a model."""

from typing import Any

ALONE = {"multiplier": 1, "explore": 1.0}
"""Labels come as they are drawn: nothing is chosen while a judge learns offline."""

EVERY = 1 << 20
"""Steps whose labels a readout keeps: all."""


def metis(judge: str, **settings: Any) -> dict[str, Any]:
    """METIS with a judge and its settings; `direct` has no policy gradient to bound it."""
    return {"name": "metis", **ALONE, "trial": 0, "judge": {"name": judge, **settings}}


def readout(**settings: Any) -> dict[str, Any]:
    return metis("readout", window=EVERY, **settings)


def direct(**settings: Any) -> dict[str, Any]:
    return metis("direct", share=0.0, **settings)


MEAN, LEVEL, PROBE = "mean", "level label", "probe"

LEARNED: dict[str, dict[str, Any]] = {
    PROBE: readout(regression="ridge", layer=1.0),
    "probe, logistic": readout(layer=1.0),
    "readout of the prompt": readout(),
    "readout of the prompt, ridge": readout(regression="ridge"),
    "log score": direct(),
    "log score, passes": direct(scale="passes"),
    "K = 0": direct(scale="passes", examples=0),
    "K = 6": direct(scale="passes", examples=6),
}
"""Settings of a curriculum for each judge that learns."""

ROWS = (MEAN, LEVEL, *LEARNED)

SHOWN = (
    *(MEAN, LEVEL, PROBE, "probe, logistic", "probe, three layers"),
    *("readout", "readout of the prompt", "readout of the prompt, ridge"),
    *("readout of the judge prompt", "readout, ridge", "readout, last layer"),
    *("readout, three layers", "readout, K = 3", "readout of the judge prompt, K = 3"),
    *("readout, ridge, K = 3", "readout, harder side", "readout, judge trained"),
    *("mean of both ranks", "log score", "log score, passes", "exact", "REINFORCE"),
    *("MASA's reward", "passes and length", "K = 0", "K = 6", "exemplars at the frontier"),
    *("exemplars like the candidates", "harder side"),
)
"""Rows of tables in their order; those that are not in ROWS were measured at 25c633b, with settings
that are gone since."""
