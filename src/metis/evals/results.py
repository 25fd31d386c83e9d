"""Results of an evaluation: shown as they come, JSON for programs, a table like the paper's."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from metis import files
from metis.evals.suite import Evaluation
from metis.run.statistics import Estimate, mean, mean_over_benchmarks
from metis.tasks.benchmarks.scoring import FAITHFUL, TITLES
from metis.text import markdown_table

SCHEMA = 2
MISSING = "–"


def results(
    evaluation: Evaluation, rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any]
) -> dict[str, Any]:
    """The scores of every benchmark and their average; deterministic to the byte."""
    summary = {"schema": SCHEMA, **about, **evaluation.described, "metric": metric(evaluation)}
    summary["benchmarks"] = {
        each.name: {
            "title": each.title,
            **summary["benchmarks"][each.name],
            **_benchmark([row for row in rows if row["benchmark"] == each.name]),
        }
        for each in evaluation.sets
    }
    scored = [benchmark["scores"] for benchmark in summary["benchmarks"].values()]
    summary["average"] = {
        name: _written(
            mean_over_benchmarks(
                [_estimate(scores.get(name, scores[FAITHFUL])) for scores in scored]
            )
        )
        for name in dict.fromkeys(name for scores in scored for name in scores)
    }
    return summary


def metric(evaluation: Evaluation) -> str:
    """The name of the metric: pass@1, or mean@k for k answers, which estimates the same."""
    return "pass@1" if evaluation.samples == 1 else f"mean@{evaluation.samples}"


def _benchmark(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    answers = [answer for row in rows for answer in row["answers"]]
    samples = len(rows[0]["answers"])
    scores = {}
    for name in answers[0]["scores"]:
        problems = [[answer["scores"][name] for answer in row["answers"]] for row in rows]
        scores[name] = _written(mean([float(np.mean(values)) for values in problems]))
        if samples > 1:
            scores[name][f"pass@{samples}"] = float(np.mean([max(values) for values in problems]))
    return {
        "scores": scores,
        "cut_off": float(np.mean([answer["finish"] == "length" for answer in answers])),
        "tokens": float(np.mean([answer["tokens"] for answer in answers])),
        "failed": sum(answer["finish"] == "failed" for answer in answers),
    }


def _written(estimate: Estimate) -> dict[str, float | None]:
    return {"accuracy": estimate.mean, "stderr": estimate.error}


def _estimate(score: Mapping[str, Any]) -> Estimate:
    return Estimate(score["accuracy"], score["stderr"])


def markdown(summary: Mapping[str, Any]) -> str:
    """The row of the paper's table, and what a reader must know to compare it."""
    benchmarks = summary["benchmarks"].values()
    several = len(benchmarks) > 1
    header = ["model", *(b["title"] for b in benchmarks), *(["Avg."] if several else [])]
    table = [header, [summary["name"], *(_percent(b["scores"][FAITHFUL]) for b in benchmarks)]]
    if several:
        table[-1].append(_percent(summary["average"][FAITHFUL]))
    for name in (name for name in summary["average"] if name != FAITHFUL):
        beside = [_percent(b["scores"].get(name)) for b in benchmarks]
        table.append([f"… {TITLES.get(name, name)}", *beside])
        if several:
            table[-1].append(_percent(summary["average"][name]))
    drawn = "greedy" if summary["temperature"] == 0 else f"temperature {summary['temperature']:g}"
    note = (
        f"{summary['metric']} in percent ± one standard error over problems; {drawn}, answers of "
        f"up to {summary['max_tokens']:,} tokens, seed {summary['seed']}.\n"
    )
    asked = "".join(
        f"- {b['title']}: {_asked(b)}; scorer: {b['scorer']}{_remark(b)}\n" for b in benchmarks
    )
    return "\n".join([markdown_table(table), note, markdown_table(_details(summary)), asked])


def _asked(benchmark: Mapping[str, Any]) -> str:
    instruction = benchmark["instruction"]
    if instruction is None:
        return "asked in its task's words"
    return f"instruction: “{instruction}”" if instruction else "no instruction"


def _remark(benchmark: Mapping[str, Any]) -> str:
    return f"; {benchmark['remark']}" if "remark" in benchmark else ""


def _details(summary: Mapping[str, Any]) -> list[list[str]]:
    samples = summary["samples"]
    extra = [f"pass@{samples}"] if samples > 1 else []
    failures = any(benchmark["failed"] for benchmark in summary["benchmarks"].values())
    head = ["benchmark", "problems", "cut off", "tokens an answer", *extra]
    table = [[*head, "failed"] if failures else head]
    for benchmark in summary["benchmarks"].values():
        row = [benchmark["title"], f"{benchmark['problems']:,}", f"{benchmark['cut_off']:.1%}"]
        row.append(f"{benchmark['tokens']:,.0f}")
        row += [f"{100 * benchmark['scores'][FAITHFUL][name]:.1f}" for name in extra]
        row += [f"{benchmark['failed']:,}"] if failures else []
        table.append(row)
    return table


def _percent(score: Mapping[str, Any] | None) -> str:
    if score is None:
        return MISSING
    error = MISSING if score["stderr"] is None else f"{100 * score['stderr']:.1f}"
    return f"{100 * score['accuracy']:.1f} ± {error}"


def write(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write `results.json` and `results.md`, each atomically."""
    for name, text in (
        ("results.json", json.dumps(summary, indent=2) + "\n"),
        ("results.md", markdown(summary)),
    ):
        with files.atomic(folder / name) as file:
            file.write(text.encode())


class EvaluationView:
    """Counts answered problems, and the score of each benchmark so far."""

    def __init__(self, console: Console, evaluation: Evaluation) -> None:
        self.console, self.count = console, evaluation.count
        self.titles = {each.name: each.title for each in evaluation.sets}
        self.errors: set[str] = set()
        self.done = self.tenth = 0
        self.values: dict[str, list[float]] = {}
        self.bar = Progress(
            TextColumn("problem"),
            MofNCompleteColumn(),
            BarColumn(bar_width=24),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=console,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task("", total=self.count)

    def __enter__(self) -> "EvaluationView":
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def advance(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.done += len(rows)
        line = ""
        for row in rows:
            title = self.titles[row["benchmark"]]
            values = self.values.setdefault(title, [])
            values += [answer["scores"][FAITHFUL] for answer in row["answers"]]
            line = f"{title} {sum(values) / len(values):.1%}"
            self._tell(row)
        self.bar.update(self.task, completed=self.done, description=line)
        tenth = 10 * self.done // self.count
        if not self.console.is_terminal and tenth > self.tenth:
            self.console.print(f"{self.done:,} of {self.count:,} problems · {line}")
        self.tenth = tenth

    def _tell(self, row: Mapping[str, Any]) -> None:
        """Say why an answer failed, once for each reason."""
        for answer in row["answers"]:
            error = answer.get("error", "")
            if error and error not in self.errors:
                self.errors.add(error)
                self.console.print(f"{row['problem']} failed, which counts as 0: {error}")
