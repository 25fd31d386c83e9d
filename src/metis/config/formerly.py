"""Settings of older versions, each with its replacement."""

_CONSTANT = "it is gone: no run needed another value"
_JUDGE = "curriculum.judge"

FORMERLY = {
    "sinks": "it is loggers",
    f"{_JUDGE}.mode": f"choose the judge by {_JUDGE}=direct, reason or readout",
    "curriculum.examples": f"it is {_JUDGE}.examples, of direct and reason",
    "curriculum.ema": f"it is {_JUDGE}.ema, of reason",
    "curriculum.failures": f"it is {_JUDGE}.failures, of reason",
    "curriculum.replay": f"it is {_JUDGE}.replay, of direct",
    "curriculum.window": f"it is {_JUDGE}.window",
    "curriculum.regression": f"it is {_JUDGE}.regression",
    "curriculum.depths": f"it is {_JUDGE}.layer: one number",
    "curriculum.preference.regression": f"it is {_JUDGE}.regression, of readout",
    "curriculum.preference.window": f"it is {_JUDGE}.window, of readout",
    "curriculum.preference.depths": f"it is {_JUDGE}.layer, of readout: one number",
    **dict.fromkeys(
        [f"curriculum.preference.{name}" for name in ("readout", "mix", "harder")],
        f"it is gone: a readout is a judge of its own ({_JUDGE}=readout)",
    ),
    **dict.fromkeys(
        [
            *(f"{_JUDGE}.{name}" for name in ("layout", "loss", "reward", "offsets", "baseline")),
            *(f"{_JUDGE}.{name}" for name in ("target", "aggregate", "ratio")),
            *(f"curriculum.{name}" for name in ("exemplars", "memory", "anchor", "order")),
            *(f"curriculum.{name}" for name in ("ties", "warmup", "guard")),
        ],
        _CONSTANT,
    ),
}
