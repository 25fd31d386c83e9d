"""Surveys, evaluations and comparisons as the calls return them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from metis.comparisons import comparison as comparisons
from metis.comparisons.ending import look
from metis.comparisons.plan import saved
from metis.library import tables
from metis.library.run import TrainedRun
from metis.library.shown import Facts, Shown, Transcribed
from metis.run.folder import log_rows, read_log
from metis.run.manifest import read_config
from metis.run.statistics import group_kind
from metis.tasks.benchmarks.scoring import FAITHFUL


@dataclass(frozen=True, repr=False)
class SurveyResult(Transcribed):
    """A survey's folder and its contents."""

    path: Path
    config: dict[str, Any]

    BRIEF: ClassVar = ("prompts", "informative", "all-fail", "all-pass")

    @property
    def outcomes(self) -> list[dict[str, Any]]:
        """One row per prompt: its kind, its mean reward, how many rollouts failed."""
        return tables.outcomes(self.path, group_kind)

    @property
    def rollouts(self) -> list[dict[str, Any]]:
        """One row per rollout, as of a run."""
        return tables.rollouts(self.path, "survey", "outcomes")

    @property
    def page(self) -> str:
        """The tables and the advice, in Markdown."""
        return (self.path / "survey.md").read_text("utf-8")

    @property
    def title(self) -> str:
        return f"survey {self.path}"

    @property
    def facts(self) -> Facts:
        from metis.surveys.facts import PromptOutcome, SurveyFacts

        rows = read_log(self.path, "outcomes")
        measured = SurveyFacts([PromptOutcome.of(row) for row in rows])
        shares = {kind: f"{share.value:.0%}" for kind, share in measured.shares().items()}
        return {
            "prompts": len(rows),
            **shares,
            "rollouts": measured.rollouts,
            "truncated": f"{measured.cut_off:.0%}",
        }


@dataclass(frozen=True, repr=False)
class RankingResult(Shown):
    """A ranking's folder and its contents."""

    path: Path
    config: dict[str, Any]

    BRIEF: ClassVar = ("prompts", "model")

    @property
    def ranking(self) -> list[dict[str, Any]]:
        """One row per prompt, best first: rank, id, row, expected variance and pass rate."""
        return read_log(self.path, "ranking")

    @property
    def calibration(self) -> SurveyResult:
        """The rollouts of the calibration."""
        folder = self.path / "calibration"
        return SurveyResult(folder, read_config(folder))

    @property
    def page(self) -> str:
        """The page, as HTML."""
        return (self.path / "judge.html").read_text("utf-8")

    @property
    def title(self) -> str:
        return f"ranking {self.path}"

    @property
    def facts(self) -> Facts:
        rolled_out = len(self.calibration.outcomes)
        known = {"prompts": self.config["prompts"]["count"], "rolled out": rolled_out}
        return {**known, "model": str(self.config["engine"]["model"])}


@dataclass(frozen=True, repr=False)
class EvaluationResult(Transcribed):
    """An evaluation's folder and its contents."""

    path: Path
    results: dict[str, Any]
    """As in `results.json`; empty where the evaluation was stopped."""

    BRIEF: ClassVar = ("model", "metric", "accuracy", "answers")

    @property
    def accuracy(self) -> float:
        """The mean over benchmarks."""
        return float(self.results["average"][FAITHFUL]["accuracy"])

    @property
    def answers(self) -> list[dict[str, Any]]:
        """One row per answer: benchmark, problem, scores, tokens, truncated, answer and others."""
        return tables.answers(self.path)

    @property
    def title(self) -> str:
        return f"evaluation {self.path}"

    @property
    def facts(self) -> Facts:
        answers = sum(len(row["answers"]) for row in log_rows(self.path, "answers"))
        if not self.results:
            return {"answers": answers, "state": "not finished"}
        scored = {
            each["title"]: f"{each['scores'][FAITHFUL]['accuracy']:.1%}"
            for each in self.results["benchmarks"].values()
        }
        return {
            "model": self.results["name"],
            "metric": self.results["metric"],
            "accuracy": f"{self.accuracy:.1%}",
            **(scored if len(scored) > 1 else {}),
            "answers": answers,
        }


@dataclass(frozen=True, repr=False)
class ComparisonResult(Shown):
    """A comparison's folder and its contents."""

    path: Path

    BRIEF: ClassVar = ("variants", "seeds", "finished")

    @property
    def runs(self) -> dict[str, TrainedRun]:
        """The runs that were begun, by their names: VARIANT-SEED."""
        return {run.path.name: run for _, _, run in self._begun()}

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row per run: variant, seed, accuracies, and its metrics at the last step."""
        rows = []
        for variant, seed, run in self._begun():
            metrics = run.metrics
            tested = [row["eval/accuracy"] for row in metrics if "eval/accuracy" in row]
            rows.append(
                {
                    "variant": variant,
                    "seed": seed,
                    "finished": run.finished,
                    "accuracy/first": tested[0] if tested else None,
                    "accuracy/last": tested[-1] if tested else None,
                    "accuracy/best": max(tested, default=None),
                    **(metrics[-1] if metrics else {}),
                }
            )
        return rows

    @property
    def page(self) -> str:
        """The verdicts and tables, in Markdown."""
        from metis.comparisons.table import markdown

        plan = saved(self.path)
        return markdown(comparisons.read_comparison(self.path, plan, any_baseline=True))

    def report(self, baseline: str = "") -> Path:
        """Write the table and the page with curves into the folder; returns the page's path."""
        from metis.comparisons.report import redraw

        redraw(self.path, None, baseline)
        return self.path / "report.html"

    def _begun(self) -> list[tuple[str, int, TrainedRun]]:
        named = [(name, seed, self.path / f"{name}-{seed}") for name, seed in self._planned()]
        return [
            (name, seed, open_run(folder))
            for name, seed, folder in named
            if (folder / "config.json").exists()
        ]

    def _planned(self) -> list[tuple[str, int]]:
        names, seeds = comparisons.variants_and_seeds(self.path, saved(self.path))
        return [(name, seed) for name in names for seed in seeds]

    @property
    def title(self) -> str:
        return f"comparison {self.path}"

    @property
    def facts(self) -> Facts:
        planned = self._planned()
        done = sum(run.finished for _, _, run in self._begun())
        return {
            "variants": ", ".join(dict.fromkeys(name for name, _ in planned)),
            "seeds": ", ".join(dict.fromkeys(str(seed) for _, seed in planned)),
            "finished": f"{done} of {len(planned)} runs",
        }


def open_run(folder: Path) -> TrainedRun:
    """The run of a folder; it is finished where its log comes to the end of its budget."""
    config = read_config(folder)
    config.pop("changes", None)
    return TrainedRun(folder, config, look(folder)[0] is not None)
