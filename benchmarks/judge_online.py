"""Selection replayed on recorded outcomes: the groups that a curriculum would have trained on.

    python benchmarks/judge_online.py SET.jsonl.gz [--data data/math] [--most 0.25]
        [--arms probe readout] [--steps 30] [--batch 16] [--seeds 10] [--states STATES.npz]

Every step is the curriculum's own: it draws candidates, reads their states, chooses some, and
learns from their outcomes, drawn with replacement from the recorded ones. The policy does not
learn, so that each state is read once; `--states` keeps them in a file. `--most` leaves out prompts
with a higher mean reward. Prints informative groups over the steps, the mean of all seeds.

Arms compare with each other, not with training: a prompt that no recorded rollout solved is never
solved, and one that comes again has the same pass rate and state as before.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from judge_offline import Model, Sets
from numpy.typing import NDArray
from recorded_rollouts import RecordedRollouts
from remembered import Remembered

from metis import Group, Pool, Progress, Prompt, drive
from metis.engines.local.settings import LocalSettings
from metis.errors import require
from metis.run.statistics import Estimate, mean
from metis.settings.sections import curriculum_of
from metis.surveys.facts import PromptOutcome
from metis.text import markdown_table

PARTS = 3
ARMS: dict[str, dict[str, Any]] = {
    "uniform": {"name": "uniform"},
    "oracle": {"name": "oracle"},
    "probe": {"name": "probe"},
    "probe, logistic": {"name": "probe", "judge": {"regression": "logistic"}},
    "probe, two thirds": {"name": "probe", "judge": {"layer": 2 / 3}},
    "readout": {"name": "metis", "preset": "readout"},
    "readout, ridge": {"name": "metis", "judge": {"name": "readout", "regression": "ridge"}},
    "readout, trial": {"name": "metis", "preset": "readout", "trial": 16},
}
"""Curricula whose network does not learn."""


class Resampled(RecordedRollouts):
    """Rollouts drawn with replacement from the recorded ones."""

    def __init__(self, states: Remembered, outcomes: Sequence[PromptOutcome], seed: int) -> None:
        super().__init__(states, outcomes)  # type: ignore[arg-type]  # nothing else is asked for
        self.draw = np.random.default_rng(seed)

    def _group(self, prompt: Prompt, n: int) -> Group:
        recorded = self.outcomes[prompt.id]
        drawn = self.draw.integers(len(recorded.rewards), size=n)
        again = recorded._replace(
            rewards=tuple(recorded.rewards[i] for i in drawn),
            tokens=tuple(recorded.tokens[i] for i in drawn),
            failed=0,
        )
        return RecordedRollouts(self.engine, [again])._group(prompt, n)


def replay(
    arm: str,
    seed: int,
    prompts: Sequence[Prompt],
    engine: RecordedRollouts,
    chosen: argparse.Namespace,
) -> list[float]:
    """The share of informative groups in every step."""
    curriculum = curriculum_of(ARMS[arm], chosen.batch, chosen.group)
    pool = Pool(prompts, seed=seed)
    steps = (Progress(step, policy=0, seed=seed) for step in range(chosen.steps))
    batches = [drive(curriculum.step(pool, progress), engine) for progress in steps]
    return [float(np.mean([group.informative for group in batch.groups])) for batch in batches]


def table(shares: Mapping[str, NDArray[np.float64]]) -> str:
    """Informative groups by part of the run, and over all of it."""
    steps = next(iter(shares.values())).shape[1]
    parts = [part for part in np.array_split(np.arange(steps), PARTS) if len(part)]
    names = [f"{part[0] + 1} to {part[-1] + 1}" for part in parts]
    rows = [["variant", *(f"steps {name}" for name in names), "all steps"]]
    for arm, runs in shares.items():
        means = [f"{runs[:, part].mean():.1%}" for part in parts]
        rows.append([arm, *means, _written(mean(runs.mean(axis=1).tolist()))])
    return markdown_table(rows)


def _written(estimate: Estimate) -> str:
    return f"{estimate.mean:.1%}" + (f" ± {estimate.error:.1%}" if estimate.error else "")


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    option = parser.add_argument
    option("sets", nargs="+", type=Path, metavar="SET.jsonl.gz")
    option("--data", type=Path, help="folder of the prepared files")
    option("--model", default="", help="by default the one that the sets are of")
    option("--most", type=float, default=1.0, help="mean reward of prompts that are kept (1)")
    option("--arms", nargs="+", choices=list(ARMS), default=list(ARMS), metavar="ARM")
    option("--steps", type=int, default=30)
    option("--batch", type=int, default=16, help="prompts a step (16)")
    option("--seeds", type=int, default=10, help="runs of each variant (10)")
    option("--states", type=Path, metavar="STATES.npz", help="file of states that were read")
    option("--tokens", type=int, default=16384, help="padded tokens in one pass")
    option("--device", default="auto")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    chosen = arguments(words)
    for name in ("steps", "batch", "seeds"):
        require(getattr(chosen, name) >= 1, f"--{name}", getattr(chosen, name), "use at least 1")
    sets = Sets(chosen.sets, chosen.data)
    chosen.group = sets.settings["group"]
    kept = {key: o for key, o in sets.outcomes.items() if np.mean(o.rewards) <= chosen.most}
    prompts = [prompt for prompt in sets.prompts if prompt.id in kept]
    require(len(prompts) > chosen.batch, "--most", chosen.most, f"keeps {len(prompts)} prompts")
    local = LocalSettings(chosen.model, device=chosen.device, tokens=chosen.tokens)
    model, shares = Model(sets, local, chosen.states), {}
    size = f"{len(prompts):,} prompts, {chosen.seeds} runs of each variant"
    print(size, file=sys.stderr, flush=True)
    for arm in chosen.arms:
        engines = (
            Resampled(model.states, list(kept.values()), seed) for seed in range(chosen.seeds)
        )
        runs = [replay(arm, seed, prompts, one, chosen) for seed, one in enumerate(engines)]
        model.states.keep()
        shares[arm] = np.array(runs)
        print(f"{arm}: {shares[arm].mean():.1%}", file=sys.stderr, flush=True)
    model.close()
    print(table(shares))


if __name__ == "__main__":
    main()
