"""Overhead of `metis.Selector` on a large training set: milliseconds of a step, without any model.

    python benchmarks/selector.py [--pool 1000000] [--steps 60] [--lag 1]

A step is one `propose` and the `observe` of every pick; the first one, which builds indices, is
reported apart. Prints the median and the worst of the rest, for each curriculum that needs rewards
alone, the time of a state and its load, and the peak memory beyond that of the rows.
"""

import argparse
import random
import resource
import statistics
import time
from typing import Any

from metis import Selector

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
}


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


def measure(rows: list[dict[str, Any]], name: str, steps: int, lag: int) -> list[float]:
    """Milliseconds: building, first step, median step, worst step, state, load."""
    rng, waiting, seconds = random.Random(0), [], []
    start = time.process_time()
    selector = Selector(rows, name, batch=32, group=8, steps=steps, **SETTINGS[name])
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
    for name in chosen.curricula:
        figures = measure(rows, name, chosen.steps, chosen.lag)
        print(f"{name:24}", *(f"{each:8.1f}" for each in figures))
        slow += [name] if figures[2] > ALLOWED else []
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"rows {before:.2f} GB, peak {peak:.2f} GB")
    if slow:
        raise SystemExit(f"above {ALLOWED:.0f} ms a step: {', '.join(slow)}")


if __name__ == "__main__":
    main()
