"""The logs of a run on verl: those of every run folder, so that `metis report` reads them."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from metis.core import Batch
from metis.runlog import LOGS, SCHEMA, RunFolder, read
from metis.train import judgment_rows, rollout_rows

PHASES = {"judge": "judge", "gen": "rollout", "select": "select", "update_actor": "update"}
"""verl's timers, by what they are called in a run folder."""


class Journal:
    """Writes what each step did. A folder that was made before keeps the settings it has."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        known = folder / "config.json"
        config = json.loads(known.read_text("utf-8")) if known.exists() else settings
        self.folder = RunFolder.open(folder, {"schema": SCHEMA, **config})
        self.elapsed = 0.0

    def resume(self, step: int) -> None:
        """Forget what came after a checkpoint."""
        self.folder.cut({log: self._length(log, step) for log in LOGS} if step else {})
        timings = read(self.folder.path, "timings")
        self.elapsed = timings[-1]["elapsed"] if timings else 0.0

    def _length(self, log: str, step: int) -> int:
        """Bytes of a log up to a step."""
        with (self.folder.path / f"{log}.jsonl").open("rb") as file:
            return sum(len(line) for line in file if json.loads(line)["step"] <= step)

    def tested(self, step: int, metrics: Mapping[str, Any]) -> None:
        """A test before the first step."""
        self.folder.append("metrics", [{"step": step, **accuracy(metrics)}])

    def note(
        self, step: int, batch: Batch, metrics: Mapping[str, Any], seconds: Mapping[str, float]
    ) -> None:
        """One step: its metrics as verl logged them, and why its prompts were chosen."""
        ours = {
            name.removeprefix("metis/"): float(value)
            for name, value in metrics.items()
            if name.startswith(("metis/", "actor/")) and math.isfinite(float(value))
        }
        self.folder.append("metrics", [{"step": step, **ours, **accuracy(metrics)}])
        self.elapsed += seconds.get("step", 0.0)
        phases = {PHASES[name]: value for name, value in seconds.items() if name in PHASES}
        self.folder.append("timings", [{"step": step, **phases, "elapsed": self.elapsed}])
        self.folder.append("judgments", judgment_rows(step, batch))
        self.folder.append("rollouts", rollout_rows(step, batch))


def accuracy(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Mean over the data sources of what verl reports of the held-out prompts."""
    found = [float(value) for name, value in metrics.items() if name.startswith("val-core/")]
    return {"eval/accuracy": float(np.mean(found))} if found else {}
