"""Cost of selection on a large pool: draw, rank and save state, without any model.

    python benchmarks/selection.py [--pool 1000000] [--candidates 2048] [--steps 100]

Prints the median milliseconds of a step on the large pool and on one a hundred times smaller, their
ratio, and the peak memory. The judge's replies are drawn at random from the eleven allowed values;
writing prompts and reading replies is part of a step, as it is in training.
"""

import argparse
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metis import Group, Pool, Progress, Prompt, drive
from metis.core import Chat, Completion, Engine, Sampling, Trajectory, state
from metis.curricula.judges import Reason
from metis.curricula.judges.scale import GRID, VARIANCE
from metis.curricula.metis import Metis
from metis.curricula.selection import choose

NOTHING = Trajectory(np.zeros(1, np.int64), np.ones(1, bool), np.zeros(1, np.float32), 0)


class RandomEngine(Engine):
    """Replies and rewards by chance, at no cost."""

    def __init__(self) -> None:
        self.rng = random.Random(0)

    def complete(self, chats: Sequence[Chat], sampling: Sampling) -> list[Completion]:
        replies = [VARIANCE.answer(value) for value in self.rng.choices(GRID, k=len(chats))]
        return [Completion(reply, NOTHING, "stop") for reply in replies]

    def rollout(self, prompts: Sequence[Prompt], n: int) -> list[Group]:
        passed = [self.rng.randrange(n + 1) for _ in prompts]
        return [
            Group(prompt, (1.0,) * k + (0.0,) * (n - k), (NOTHING,) * n)
            for prompt, k in zip(prompts, passed, strict=True)
        ]


def measure(size: int, candidates: int, steps: int) -> tuple[float, float]:
    """Median milliseconds of draw + rank + save, and of a whole METIS step with its save."""
    pool = Pool(Prompt(f"benchmark:{i}", f"What is {i} + {i % 7}?") for i in range(size))
    curriculum = Metis(batch=candidates // 8, judge=Reason())
    engine, rng = RandomEngine(), random.Random(0)
    selections, whole = [], []
    with tempfile.TemporaryDirectory() as folder:
        for step in range(steps):
            start = time.perf_counter()
            drive(curriculum.step(pool, Progress(step)), engine)
            state.save_state(Path(folder) / "run.state", both(curriculum, pool))
            whole.append(time.perf_counter() - start)
            scores = [rng.choice((0.0, 0.1, 0.2, 0.25)) for _ in range(candidates)]
            start = time.perf_counter()
            pool.sample(candidates)
            choose(scores, candidates // 8, candidates // 80, rng, rng)
            state.save_state(Path(folder) / "run.state", both(curriculum, pool))
            selections.append(time.perf_counter() - start)
    return 1e3 * statistics.median(selections), 1e3 * statistics.median(whole)


def both(curriculum: Metis, pool: Pool) -> dict[str, Any]:
    return {"curriculum": curriculum.state_dict(), "pool": pool.state_dict()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pool", type=int, default=1_000_000)
    parser.add_argument("--candidates", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=100)
    chosen = parser.parse_args()
    small = measure(chosen.pool // 100, chosen.candidates, chosen.steps)
    large = measure(chosen.pool, chosen.candidates, chosen.steps)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    for name, a, b in zip(("draw + rank + save", "whole METIS step"), small, large, strict=True):
        print(f"{name:20} {a:6.1f} ms with {chosen.pool // 100:,} prompts, ", end="")
        print(f"{b:6.1f} ms with {chosen.pool:,}: ratio {b / a:.2f}")
    print(f"peak memory          {peak:6.2f} GB")


if __name__ == "__main__":
    main()
