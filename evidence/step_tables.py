"""Tables of the seconds of a step, by phase, from the runs in this folder."""

import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metis.run import folder as run_folder
from metis.run.recorded import read_run
from metis.text import markdown_table

EVIDENCE = Path(__file__).resolve().parent
PHASES = ("judge", "rollout", "reward", "select", "update")


@dataclass(frozen=True)
class Steps:
    """The steps of a run that are averaged: after the first `skip`, up to `last`."""

    run: str
    setting: str
    skip: int = 2
    last: int | None = None
    judged: int = 0
    """Only steps that judged this many candidates."""

    def mean(self, phase: str) -> float:
        """Seconds in a phase, or of the whole step."""
        return statistics.fmean(row.get(phase, 0.0) for row in self.timings())

    @property
    def without_judging(self) -> float:
        return self.mean("step") - self.mean("judge")

    @property
    def answer(self) -> float:
        """Tokens of a rollout."""
        return self._per("rollout/tokens", "rollout/generated")

    @property
    def reply(self) -> float:
        """Tokens of a judge's reply."""
        return self._per("judge/tokens", "judge/asked")

    def _per(self, total: str, count: str) -> float:
        rows = [row for row in self._rows("metrics") if "rollout/tokens" in row]
        rows = rows[self.skip : self.last]
        return float(sum(row[total] for row in rows) / sum(row[count] for row in rows))

    def timings(self) -> list[dict[str, float]]:
        rows, before = self._rows("timings"), 0.0
        for row in rows:
            row["step"], before = row["elapsed"] - before, row["elapsed"]
        if self.judged:
            asked = {r["step"]: r.get("judge/asked") for r in self._rows("metrics")}
            kept = [number for number, count in asked.items() if count == self.judged]
            return [rows[number - 1] for number in kept if number > self.skip]
        return rows[self.skip : self.last]

    def _rows(self, log: str) -> list[dict[str, Any]]:
        return run_folder.read_log(EVIDENCE / self.run, log)


SMALL, QWEN = "verl-direct-smollm2-h200", "verl-direct-qwen2.5-coder-1.5b-h200"
FRESH = "verl-fresh-qwen2.5-coder-1.5b-h200"
EARLIER, EARLIER_QWEN = "verl-arithmetic-smollm2-h200", "verl-math-qwen2.5-coder-1.5b-h200"

VERL = (
    (
        Steps(f"{SMALL}/uniform", "uniform"),
        Steps(f"{SMALL}/direct-quarter", "`direct`, `judge.train=0.25`"),
    ),
    (
        Steps(f"{QWEN}/uniform", "uniform", last=8),
        Steps(f"{QWEN}/direct", "`direct`", last=8),
        Steps(f"{QWEN}/direct-quarter", "`direct`, `judge.train=0.25`", last=8),
        Steps(f"{QWEN}/reason", "`reason`", last=8),
    ),
    (
        Steps(f"{FRESH}/uniform", "uniform", last=8),
        Steps(f"{FRESH}/direct-quarter-fresh", "`direct`, `judge.train=0.25 replay=0`", last=8),
    ),
    (
        Steps(f"{EARLIER}/uniform", "uniform"),
        Steps(f"{EARLIER}/metis-reason", "`reason`, before replay"),
        Steps(f"{EARLIER}/metis-direct", "`direct`, before one call scored all candidates"),
    ),
    (
        Steps(f"{EARLIER_QWEN}/uniform", "uniform", last=10),
        Steps(f"{EARLIER_QWEN}/metis-reason", "`reason`, before replay", last=10),
    ),
)
"""Runs of one setting together, uniform sampling first."""

LOCAL = (
    Steps("arithmetic-smollm2-h200/uniform", "uniform", skip=50),
    Steps("arithmetic-smollm2-h200/metis", "METIS", skip=50, judged=512),
    Steps("math-qwen2.5-coder-1.5b-h200/metis", "METIS"),
)


def verl_table() -> str:
    """Steps on verl against uniform sampling and against themselves without judging."""
    heads = ("run", "selection", "tokens per answer", "step", "judging", "rollouts", "update")
    rows = [[*heads, "ratio to uniform", "ratio to itself without judging"]]
    for uniform, *judged in VERL:
        rows.append([*_verl_row(uniform, uniform), "1", ""])
        for variant in judged:
            ratios = (against_uniform(variant, uniform), against_itself(variant))
            rows.append([*_verl_row(variant, uniform), *ratios])
    return markdown_table(rows)


def against_uniform(variant: Steps, uniform: Steps) -> str:
    """The ratio of two means over steps, and its standard error."""
    means = [one.mean("step") for one in (variant, uniform)]
    errors = [_error([row["step"] for row in one.timings()]) for one in (variant, uniform)]
    ratio = means[0] / means[1]
    relative = math.hypot(*(error / whole for error, whole in zip(errors, means, strict=True)))
    return f"{ratio:.2f} ± {ratio * relative:.2f}"


def against_itself(variant: Steps) -> str:
    return f"{variant.mean('step') / variant.without_judging:.2f}"


def _error(values: list[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values))


def local_table() -> str:
    """Steps of the local engine by phase."""
    heads = ("run", "step", "rollouts", "update", "judging", "unattributed", "held-out accuracy")
    rows = [list(heads)]
    for variant in LOCAL:
        step, judging = variant.mean("step"), variant.mean("judge")
        rest = step - sum(variant.mean(phase) for phase in PHASES)
        _, accuracy = read_run(EVIDENCE / variant.run).series("eval/accuracy")
        rows.append(
            [
                f"`{variant.run}`",
                f"{step:.3f}",
                f"{variant.mean('rollout'):.3f}",
                f"{variant.mean('update'):.3f}",
                f"{judging:.3f} ({judging / step:.1%})" if judging else "",
                f"{rest:.3f}",
                f"{accuracy[0]:.3f} → {accuracy[-1]:.3f}",
            ]
        )
    return markdown_table(rows)


def quickstart_table() -> str:
    """Accuracy and seconds of `make quickstart`."""
    rows = [["seed", "held-out accuracy", "seconds of training", "of these, judging"]]
    for seed in range(3):
        variant = Steps(f"quickstart-cpu/seed-{seed}", "METIS", skip=0)
        _, accuracy = read_run(EVIDENCE / variant.run).series("eval/accuracy")
        step, count = variant.mean("step"), len(variant.timings())
        share = (variant.mean("judge") + variant.mean("select")) / step
        learned = f"{accuracy[0]:.3f} → {accuracy[-1]:.3f}"
        rows.append([str(seed), learned, f"{count * step:.0f}", f"{share:.0%}"])
    return markdown_table(rows)


def bfcl_table() -> str:
    """Signal, reward and failed judgments of METIS on BFCL, and its validation."""
    record = read_run(EVIDENCE / "bfcl-qwen2.5-coder-1.5b-h200/metis")
    rows = [["", "first step", "last step", "mean"]]
    for name, metric in (
        ("informative groups", "batch/informative"),
        ("reward", "batch/reward"),
        ("judgments that failed to parse", "judge/failure_rate"),
    ):
        values = record.series(metric).y
        cells = (values[0], values[-1], statistics.fmean(values))
        rows.append([name, *(f"{value:.2f}" for value in cells)])
    rewards, errors = (record.series(f"eval/{name}").y for name in ("accuracy", "stderr"))
    tested = [f"{one:.3f} ± {error:.3f}" for one, error in zip(rewards, errors, strict=True)]
    rows.append(["reward on 20 validation dialogues, before and after", *tested, ""])
    return markdown_table(rows)


def _verl_row(variant: Steps, uniform: Steps) -> list[str]:
    phases = ("step", "judge", "rollout", "update")
    step, judging, *rest = (f"{variant.mean(phase):.2f}" for phase in phases)
    cells = [f"`{variant.run}`", variant.setting, f"{variant.answer:.0f}", step]
    return [*cells, "" if variant is uniform else judging, *rest]
