"""The logs of a run on verl: those of every run folder, so that `metis report` reads them."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metis.core import Batch
from metis.identity import SCHEMA
from metis.runlog import LOGS, RunFolder, read
from metis.train import judgment_rows, rollout_rows

PHASES = {"judge": "judge", "gen": "rollout", "select": "select", "update_actor": "update"}
"""verl's timers, by what they are called in a run folder."""


class Journal:
    """Writes what each step did. A folder that was made before keeps the settings it has."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        known = folder / "config.json"
        config = json.loads(known.read_text("utf-8")) if known.exists() else settings
        self.folder = RunFolder.open(folder, {"schema": SCHEMA, **config})

    def resume(self, step: int) -> bool:
        """Forget what came after a checkpoint; whether the step of the checkpoint is known."""
        self.folder.cut({log: self._length(log, step) for log in LOGS} if step else {})
        rows = read(self.folder.path, "metrics")
        return bool(rows) and rows[-1]["step"] == step

    def _length(self, log: str, step: int) -> int:
        """Bytes of a log up to a step."""
        with (self.folder.path / f"{log}.jsonl").open("rb") as file:
            return sum(len(line) for line in file if json.loads(line)["step"] <= step)

    def note(self, step: int, metrics: Mapping[str, Any]) -> None:
        """The metrics of a step or of a test alone, of those that verl logs."""
        ours = {
            name.removeprefix("metis/"): float(value)
            for name, value in metrics.items()
            if name.startswith(("metis/", "actor/")) and math.isfinite(float(value))
        }
        self.folder.append("metrics", [{"step": step, **ours}])

    def time(self, step: int, seconds: Mapping[str, float], elapsed: float) -> None:
        phases = {PHASES[name]: value for name, value in seconds.items() if name in PHASES}
        self.folder.append("timings", [{"step": step, **phases, "elapsed": elapsed}])

    def explain(self, step: int, batch: Batch) -> None:
        """Why the prompts of a step were chosen, and what came of them."""
        self.folder.append("judgments", judgment_rows(step, batch))
        self.folder.append("rollouts", rollout_rows(step, batch))

    def test(self, step: int, rewards: Mapping[str, float]) -> None:
        """The reward of every held-out prompt whose name is known."""
        rows = ({"step": step, "prompt": name, "reward": value} for name, value in rewards.items())
        self.folder.append("evals", rows)
