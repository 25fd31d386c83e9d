"""A training run as `metis.train` and `metis.load` return it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from metis.errors import MetisError
from metis.library import tables
from metis.library.shown import Facts, Transcribed
from metis.run import folder as run_folder
from metis.run import models
from metis.run.recorded import read_run


@dataclass(frozen=True, repr=False)
class TrainedRun(Transcribed):
    """A run folder and its contents; tables are lists of rows: `pandas.DataFrame(run.rollouts)`."""

    path: Path
    config: dict[str, Any]
    finished: bool
    """False after Ctrl-C; the same call resumes it."""

    BRIEF: ClassVar = ("steps", "held-out accuracy", "rollouts")

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The metrics of every step, as in `metrics.jsonl`; see docs/metrics.md."""
        return run_folder.read_log(self.path, "metrics")

    @property
    def rollouts(self) -> list[dict[str, Any]]:
        """One row per rollout: step, prompt, text, reward, tokens, truncated, answer and others."""
        return tables.rollouts(self.path, "train", "rollouts")

    @property
    def validations(self) -> list[dict[str, Any]]:
        """One row per answer to a held-out prompt, with the columns of `rollouts`."""
        return tables.validations(self.path)

    @property
    def judgments(self) -> list[dict[str, Any]]:
        """One row per candidate and step: the prediction, whether and why it was chosen."""
        return tables.judgments(self.path)

    @property
    def prompts(self) -> list[dict[str, Any]]:
        """One row per prompt: its text, how often it was a candidate and chosen, its rewards."""
        return tables.prompts(self.path)

    @property
    def accuracy(self) -> float:
        """The accuracy of the last validation."""
        return float([row["eval/accuracy"] for row in self.metrics if "eval/accuracy" in row][-1])

    @property
    def model(self) -> Path:
        """The folder of the best checkpoint, or else the last, for `from_pretrained`."""
        checkpoint = models.find_checkpoint(self.path)
        if checkpoint is None:
            raise MetisError(f"{str(self.path)!r} is no longer a run folder: train it again")
        return checkpoint.model

    def export(
        self, target: str | Path, checkpoint: str = "", dtype: str = "", adapter: bool = False
    ) -> Path:
        """Export a checkpoint as a model, as `metis export` does; returns its folder."""
        from metis.export.write import export

        export(self.path, Path(target), checkpoint, dtype, adapter, say=lambda text: None)
        return Path(target)

    def report(self) -> Path:
        """Write `report.html`, figures and a table into the run folder; returns the page's path."""
        from metis import report

        report.write([self.path], None)
        return self.path / "report.html"

    @property
    def title(self) -> str:
        return f"run {self.path}"

    @property
    def facts(self) -> Facts:
        run = read_run(self.path)
        tests = [test.accuracy for test in run.evaluations]
        ends = [f"{accuracy:.2f}" for accuracy in (*tests[:1], *tests[1:][-1:])]
        return {
            "steps": run.steps,
            **({"held-out accuracy": " → ".join(ends)} if ends else {}),
            **({"best held-out accuracy": f"{max(tests):.2f}"} if tests else {}),
            "rollouts": int(run.rollouts or 0),
            "curriculum": run.curriculum,
            "engine": run.named("engine"),
            **({"model": model} if (model := str(_model(self.config))) else {}),
            "state": "finished" if self.finished else "not finished",
        }


def _model(config: dict[str, Any]) -> Any:
    return config.get("engine", {}).get("model", "")
