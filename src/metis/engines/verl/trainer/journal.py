"""Writes the logs of a run on verl in METIS's format, for `metis report`."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metis.core import Batch
from metis.errors import MetisError
from metis.run.folder import LOGS, RunFolder, read_log
from metis.run.manifest import SCHEMA, describe_changes
from metis.run.recording import Expected, Heard, Recorder, unknown
from metis.run.records import exemplar_rows, judgment_rows, rollout_rows

PHASES = {
    "judge": "judge",
    "gen": "rollout",
    "select": "select",
    **dict.fromkeys(("old_log_prob", "ref", "adv", "update_actor"), "update"),
}
"""METIS's phases, by the name of verl's timers."""


MAY_CHANGE = (
    *("tokens", "processed", "seconds", "best"),
    *("transcripts", "transcripts_gb", "loggers_every"),
)
"""Settings that may change on resume."""


def logged(metrics: Mapping[str, Any]) -> dict[str, float]:
    """verl's metrics that go into the run folder."""
    return {
        name: float(value)
        for name, value in metrics.items()
        if name.startswith(("metis/", "actor/")) and math.isfinite(float(value))
    }


class Journal:
    """Writes the logs of every step.

    `metis train` creates the folder with the settings of its recipe, including a task. Otherwise
    `settings` are used, and a resumed run must have the same.
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, Any], step: int, expected: Expected = unknown
    ) -> None:
        path, config = folder / "config.json", {"schema": SCHEMA, **settings}
        may_change: tuple[str, ...] = MAY_CHANGE
        self.of_recipe = False
        """True if `metis train` created the folder."""
        if path.exists():
            there = json.loads(path.read_text("utf-8"))
            if "task" in there:
                config, self.of_recipe = there, True
            elif not step:
                print(f"metis: the logs in {str(folder)!r} begin anew", flush=True)
                may_change = (*there, *config)
        try:
            self.folder = RunFolder.open(folder, config, may_change, step)
        except MetisError as error:
            raise MetisError(f"{error} (on verl: trainer.default_local_dir)") from None
        kept = settings.get("transcripts", "all")
        most = settings.get("transcripts_gb", 0.0)
        self.recorder = Recorder(self.folder, kept, most, expected)
        if self.folder.changes:
            print(f"metis: from here on {describe_changes(self.folder.changes)}", flush=True)

    def resume(self, step: int) -> bool:
        """Truncate the logs to a checkpoint; returns whether they have its step.

        If not, its validation was interrupted, and is repeated.
        """
        if not step:
            self.folder.cut({})
            self.folder.transcripts.cut(-1)
            return False
        lengths = {log: self._length(log, step) for log in LOGS}
        self.folder.cut(lengths)
        self.folder.transcripts.cut(step)
        rows = read_log(self.folder.path, "metrics")
        is_recorded = bool(rows) and rows[-1]["step"] == step
        if not is_recorded:
            self.folder.cut(lengths | {"evals": self._length("evals", step - 1)})
            self.folder.transcripts.cut(step - 1, "eval")
        return is_recorded

    def _length(self, log: str, step: int) -> int:
        """Length in bytes of a log up to a step, or to an incomplete line."""
        length = 0
        with (self.folder.path / f"{log}.jsonl").open("rb") as file:
            for line in file:
                if not line.endswith(b"\n") or json.loads(line)["step"] > step:
                    break
                length += len(line)
        return length

    def note(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Write the metrics of a step, or of a validation alone."""
        ours = {name.removeprefix("metis/"): value for name, value in logged(metrics).items()}
        self.folder.append("metrics", [{"step": step, **ours}])

    def time(
        self, step: int, seconds: Mapping[str, float], elapsed: float, judged: float = 0.0
    ) -> None:
        """Write the seconds by phase; `judged` is the judge's share of the update, by tokens."""
        phases: dict[str, float] = {}
        for name, value in seconds.items():
            if phase := PHASES.get(name):
                phases[phase] = phases.get(phase, 0.0) + value
        if judged:
            whole = phases["update"]
            phases["judge"] = phases.get("judge", 0.0) + judged * whole
            phases["update"] = (1 - judged) * whole
        self.folder.append("timings", [{"step": step, **phases, "elapsed": elapsed}])

    def explain(self, step: int, batch: Batch, heard: Heard) -> None:
        """Write judgments, exemplars, rollouts and transcripts of a step."""
        self.folder.append("judgments", judgment_rows(step, batch))
        self.folder.append("exemplars", exemplar_rows(step, batch))
        self.folder.append("rollouts", rollout_rows(step, batch))
        self.recorder.step(step, heard, batch)

    def thin(self, step: int) -> None:
        """Thin old transcripts to the size limit."""
        self.say(step, self.recorder.thin(step))
        self.folder.transcripts.sync()

    def say(self, step: int, notices: Sequence[str]) -> None:
        """Print and log the notices of a step."""
        self.folder.append("notices", ({"step": step, "text": text} for text in notices))
        for text in notices:
            print(f"metis: step {step}: {text}")

    def test(self, step: int, rewards: Mapping[str, float]) -> None:
        """Log the reward of every held-out prompt with a known id."""
        rows = ({"step": step, "prompt": name, "reward": value} for name, value in rewards.items())
        self.folder.append("evals", rows)
