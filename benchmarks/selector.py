"""Overhead of `metis.Selector` on a large training set: milliseconds of a step, without any model.

    python benchmarks/selector.py [--pool 1000000] [--steps 60] [--lag 1]

A step is one `propose` and the `observe` of every pick; the first one, which builds indices, is
reported apart. Prints the median and the worst of the rest, for each curriculum that a selector
serves but `adcl`, whose step is a whole chunk of the pool; the time of a state and its load; and
the peak memory beyond that of the rows. What a model would be asked is looked up in a table of
random vectors as wide as a model of 1.5B. `speed` has no lag: its steps end in turn. Curricula that
fit a regression on hidden states have no bound: most of their step is that fit.
"""

import argparse
import json
import random
import resource
import statistics
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from metis import Selector
from metis.core import Embed, Predict

ALLOWED = 50.0
"""Milliseconds of a step that are allowed."""

SETTINGS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "mopps": {},
    "mapp": {},
    "dps": {},
    "pools": {},
    "knapsack": {},
    "adarft": {},
    "greso": {},
    "vcrl": {},
    "dapo": {},
    "ragen2": {},
    "staged": {"stages": ["a", "*"]},
    "sec": {},
    "dump": {},
    "e2h": {"categories": "difficulty"},
    "nemotron": {},
    "speed": {"train": "continuation"},
    "metis": {"preset": "readout"},
    "probe": {},
    "vip": {},
    "pcl": {},
    "dots": {"fresh": 1.0},
}
IN_TURN = ("speed",)
FITTING = ("metis", "probe", "vip")
ASKING = (*FITTING, "pcl", "dots")
WIDTH = 1536
STATES = np.random.default_rng(0).normal(size=(4096, WIDTH)).astype(np.float32)


def ask(request: Any) -> Any:
    """A model whose answers cost nothing."""
    if not isinstance(request, Embed | Predict):
        return 0.5
    places = [zlib.crc32(str(prompt).encode()) % len(STATES) for prompt in request.prompts]
    if isinstance(request, Predict):
        return [place / len(STATES) for place in places]
    return list(STATES[places])


def training_set(size: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"benchmark:{i}",
            "prompt": f"What is {i} + {i % 7}?" + " " * 200 + str(i),
            "category": "abcdefgh"[i % 8],
            "difficulty": i / size,
        }
        for i in range(size)
    ]


def write_rates(rows: list[dict[str, Any]], path: Path) -> None:
    """Pass rates of all prompts, as `metis judge` writes them."""
    with path.open("w") as file:
        for place, row in enumerate(rows):
            line = {"id": row["id"], "expected_pass_rate": place % 9 / 8}
            file.write(json.dumps(line) + "\n")


def measure(rows: list[dict[str, Any]], name: str, steps: int, lag: int) -> list[float]:
    """Milliseconds: building, first step, median step, worst step, state, load."""
    rng, waiting, seconds = random.Random(0), [], []
    start = time.process_time()
    asking: dict[str, Any] = {"ask": ask} if name in ASKING else {}
    selector = Selector(rows, name, batch=32, group=8, steps=steps, **SETTINGS[name], **asking)
    built = time.process_time() - start
    for _ in range(steps):
        start = time.process_time()
        waiting.append(selector.propose())
        for pick in waiting.pop(0) if len(waiting) > lag else []:
            chance = rng.choice((0.0, 0.1, 0.5, 1.0))
            selector.observe(pick.id, [float(rng.random() < chance) for _ in range(pick.n)])
        seconds.append(time.process_time() - start)
    start = time.process_time()
    saved = selector.state_dict()
    stated = time.process_time() - start
    start = time.process_time()
    selector.load_state_dict(saved)
    loaded = time.process_time() - start
    rest = seconds[1:]
    figures = [built, seconds[0], statistics.median(rest), max(rest), stated, loaded]
    return [1e3 * each for each in figures]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pool", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--lag", type=int, default=1)
    parser.add_argument("--curricula", nargs="*", default=list(SETTINGS))
    chosen = parser.parse_args()
    rows = training_set(chosen.pool)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    columns = ("build", "first", "median", "worst", "state", "load")
    print(f"{chosen.pool:,} prompts, ms   ", *(f"{name:>8}" for name in columns))
    slow = []
    with tempfile.TemporaryDirectory() as folder:
        SETTINGS["nemotron"]["rates"] = str(Path(folder) / "rates.jsonl")
        if "nemotron" in chosen.curricula:
            write_rates(rows, Path(SETTINGS["nemotron"]["rates"]))
        for name in chosen.curricula:
            figures = measure(rows, name, chosen.steps, 0 if name in IN_TURN else chosen.lag)
            print(f"{name:24}", *(f"{each:8.1f}" for each in figures), flush=True)
            slow += [name] if figures[2] > ALLOWED and name not in FITTING else []
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"rows {before:.2f} GB, peak {peak:.2f} GB")
    if slow:
        raise SystemExit(f"above {ALLOWED:.0f} ms a step: {', '.join(slow)}")


if __name__ == "__main__":
    main()
