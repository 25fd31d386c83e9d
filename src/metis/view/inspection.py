"""`metis inspect`: why prompts were chosen and what came of it, step by step, in a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from metis.errors import MetisError
from metis.run import folder as run_folder
from metis.run.recorded import Recorded, read_run
from metis.signal import variance
from metis.text import printable

WIDTH = 24
"""Characters of the longest bar."""

Row = Mapping[str, Any]


def inspect(
    folder: Path, step: int | None = None, prompt: str | None = None, everyone: bool = False
) -> Iterator[RenderableType]:
    """Tables of a run, of a step, or of a prompt in a step."""
    from metis.comparisons.comparison import is_comparison

    if is_comparison(folder):
        runs = sorted(path.parent.name for path in folder.glob("*/config.json"))
        named = f"name one of its runs, {', '.join(runs)}" if runs else "it has no runs yet"
        raise MetisError(f"{str(folder)!r} is a comparison: {named}")
    run = read_run(folder)
    if step is None:
        if prompt is not None:
            raise MetisError("--prompt needs the step it is looked for in: add --step T")
        yield _steps(run)
        return
    if not 1 <= step <= run.steps:
        there = f"has steps 1 to {run.steps}" if run.steps else "has no step yet"
        raise MetisError(f"--step {step}: the run {there}")
    groups = {row["prompt"]: row for row in _of(run, "rollouts", step)}
    judgments = {row["prompt"]: row for row in _of(run, "judgments", step)}
    if prompt is None:
        yield _prompts(groups, judgments, everyone)
        return
    prompt = printable(prompt)
    if prompt not in groups and prompt not in judgments:
        raise MetisError(f"--prompt {prompt!r}: step {step} has no such prompt; see --all")
    judgment = judgments.get(prompt, {})
    yield from _prompt(groups.get(prompt), judgment, _of(run, "exemplars", step))


def _of(run: Recorded, log: str, step: int) -> list[Row]:
    """The rows of a step, all their text safe to print."""
    having = f'"step": {step},'.encode()
    rows = run_folder.read_log(run.folder, log, optional=True, having=having)
    return [_printable(row) for row in rows if row["step"] == step]


def _printable(value: Any) -> Any:
    """A value of a log with `printable` applied to every text in it."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_printable(each) for each in value]
    if isinstance(value, dict):
        return {printable(key): _printable(each) for key, each in value.items()}
    return value


COLUMNS = {
    "groups": "batch/groups",
    "reward": "batch/reward",
    "v": "batch/variance",
    "informative": "batch/informative",
    "judge ρ": "judge/spearman",
    "trial": "select/trial",
    "accuracy": "eval/accuracy",
}
"""Metrics of a step, by the name they are shown under."""


def _steps(run: Recorded) -> Table:
    names = [name for name, key in COLUMNS.items() if run.has(key)]
    table = _table("step", *names)
    for row in run.metrics:
        cells = (row.get(COLUMNS[name]) for name in names)
        table.add_row(str(row["step"]), *("" if cell is None else f"{cell:.3g}" for cell in cells))
    return table


def _prompts(
    groups: Mapping[str, Row], judgments: Mapping[str, Row], everyone: bool
) -> RenderableType:
    table = _table("prompt", "category", "reason", "v̂", "v", "rewards", "tokens")
    names = [*groups, *(name for name in judgments if everyone and name not in groups)]
    names.sort(key=lambda name: (name not in groups, -(_score(judgments.get(name, {})) or 0.0)))
    for name in names:
        group, judgment = groups.get(name, {}), judgments.get(name, {})
        score, tokens = _score(judgment), group.get("tokens", ())
        table.add_row(
            name,
            str(group.get("category", "")),
            str(judgment.get("failure") or judgment.get("reason", "")),
            "" if score is None else f"{score:.3f}",
            _variance(judgment, group),
            _marks(group.get("rewards", ()), group.get("failed", 0)),
            f"{sum(tokens) / len(tokens):.0f}" if tokens else "",
        )
    left = sum(name not in groups for name in judgments)
    if left and not everyone:
        table.caption = f"{left:,} candidates were not chosen: --all shows them"
    return table


def _prompt(group: Row | None, judgment: Row, exemplars: Sequence[Row]) -> Iterator[RenderableType]:
    facts = Table.grid(padding=(0, 2))
    for name in ("reason", "failure", "score", "variance", "propensity"):
        if name in judgment:
            value = judgment[name]
            facts.add_row(name, f"{value:.4g}" if isinstance(value, float) else str(value))
    if group is not None:
        facts.add_row("rewards", _marks(group["rewards"], group["failed"]))
        facts.add_row("tokens", ", ".join(map(str, group["tokens"])))
    yield facts
    if distribution := judgment.get("distribution"):
        yield _distribution(distribution)
    if exemplars:
        table = _table("exemplar shown", "value", "v", "of step")
        for row in exemplars:
            about = f"{row['value']:.3g}", f"{row['variance']:.3f}", str(row["outcome_step"])
            table.add_row(row["prompt"], *about)
        yield table
    texts = [("judge", judgment.get("reply")), ("prompt", (group or {}).get("text"))]
    for title, text in (*texts, *(("answer", answer) for answer in answers(group or {}))):
        if text:
            yield Text.assemble((f"{title}\n", "bold"), text)


def answers(group: Row) -> list[str]:
    """The answers of a group that were kept; runs of earlier versions have one."""
    kept = group.get("answers", [group.get("answer", "")])
    return [str(answer) for answer in kept] if isinstance(kept, list) else []


def _distribution(distribution: Mapping[str, float]) -> Table:
    table = _table("predicted", "probability", "")
    for value, probability in distribution.items():
        table.add_row(value, f"{probability:.2f}", "█" * round(WIDTH * probability))
    return table


def _score(judgment: Row) -> float | None:
    score = judgment.get("score")
    return None if score is None else float(score)


def _variance(judgment: Row, group: Row) -> str:
    """v of a group, also of one that was drawn in an earlier step."""
    rewards = group.get("rewards", ())
    v = judgment.get("variance", variance(rewards) if len(rewards) > 1 else None)
    return "" if v is None else f"{v:.3f}"


def _marks(rewards: Sequence[float], failed: int) -> Text:
    """A mark for every rollout: full, part of the marks, none, failed."""
    text = Text()
    for reward in sorted(rewards, reverse=True):
        full = ("●", "green") if reward >= 1 else ("◐", "yellow") if reward > 0 else ("○", "red")
        text.append(*full)
    return text.append("×" * failed, "red")


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left")
    for name in names:
        table.add_column(name, overflow="fold")
    return table
