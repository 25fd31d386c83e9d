"""`metis inspect`: why prompts were chosen and what came of it, step by step, in a terminal."""

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from metis.view import kept, turns

WIDTH = 24
"""Characters of the longest bar."""
TEXT = 60
"""Characters of a prompt in a table."""
EXPECTED = 30
"""Characters of an expected answer in a table."""
ID = 40
"""Characters of an id that stay on one line."""

Row = Mapping[str, Any]


def inspect(
    folder: Path,
    step: int | None = None,
    prompt: str | None = None,
    everyone: bool = False,
    answer: str | None = None,
) -> Iterator[RenderableType]:
    """Tables of a run, of a step, of a prompt, or an answer with its turns."""
    require_run(folder)
    if answer is not None:
        yield from turns.answer(folder, answer)
        return
    if (once := kept.groups_asked_once(folder)) is not None:
        yield from _asked_once(
            folder, {row["prompt"]: row for row in map(_printable, once)}, prompt
        )
        return
    run = read_run(folder)
    if step is None:
        yield from [_steps(run)] if prompt is None else _history(run, printable(prompt))
        return
    if step == 0 and (tested := first_validation(run)):
        yield from _asked_once(
            folder, {row["prompt"]: row for row in map(_printable, tested)}, prompt, "eval"
        )
        return
    require_step(run, step)
    groups = {row["prompt"]: row for row in _of(run, "rollouts", step)}
    judgments = {row["prompt"]: row for row in _of(run, "judgments", step)}
    heads = _heads(folder, "train", step)
    texts = _texts(run, groups.values(), judgments)
    if prompt is None:
        yield _prompts(groups, judgments, texts, heads, everyone)
        return
    prompt = printable(prompt)
    if prompt not in groups and prompt not in judgments:
        raise MetisError(f"--prompt {prompt!r}: step {step} has no such prompt; see --all")
    judgment, group = judgments.get(prompt, {}), groups.get(prompt)
    text = texts.get(prompt, "")
    yield from _prompt(group, judgment, _of(run, "exemplars", step), text, heads.get(prompt, {}))
    yield from turns.listed(folder, step, prompt)


def require_run(folder: Path) -> None:
    """Refuse the folder of a comparison, which has runs."""
    from metis.comparisons.comparison import is_comparison

    if is_comparison(folder):
        runs = sorted(path.parent.name for path in folder.glob("*/config.json"))
        named = f"name one of its runs, {', '.join(runs)}" if runs else "it has no runs yet"
        raise MetisError(f"{str(folder)!r} is a comparison: {named}")


def require_step(run: Recorded, step: int) -> None:
    if not 1 <= step <= run.steps:
        there = f"has steps 1 to {run.steps}" if run.steps else "has no step yet"
        tested = ", and no answers of a validation before them" if not step and run.steps else ""
        raise MetisError(f"--step {step}: the run {there}{tested}")


def first_validation(run: Recorded) -> list[dict[str, Any]]:
    """The prompts of the validation before training, each with its rewards."""
    known = {
        str(head.get("prompt")): kept.group_of_answers(head, rows)
        for head, rows in turns.groups(run.folder, "eval", 0)
    }
    logged = {
        prompt: {"step": 0, "prompt": prompt, "rewards": [reward], "failed": 0}
        for prompt, reward in run.rewards.get(0, {}).items()
    }
    return list((logged | known).values())


def _asked_once(
    folder: Path, groups: Mapping[str, Row], prompt: str | None, kind: str | None = None
) -> Iterator[RenderableType]:
    """The prompts of a survey, an evaluation or a validation, or one with its answers."""
    heads = _heads(folder, kind or turns.main_kind(folder), 0)
    texts = {name: kept.question(head) for name, head in heads.items()}
    if prompt is None:
        yield _prompts(groups, {}, texts, heads, everyone=False)
        return
    prompt = printable(prompt)
    if prompt not in groups:
        raise MetisError(f"--prompt {prompt!r}: there is no such prompt in {str(folder)!r}")
    yield from _prompt(groups[prompt], {}, (), texts.get(prompt, ""), heads.get(prompt, {}))
    yield from turns.listed(folder, 0, prompt, kind)


def _heads(folder: Path, kind: str, step: int) -> dict[str, Row]:
    """The chat and the reference answer of each prompt of a step, where they are kept."""
    found = (_printable(head) for head, _ in turns.groups(folder, kind, step))
    return {str(head.get("prompt")): head for head in found}


def _history(run: Recorded, prompt: str) -> Iterator[RenderableType]:
    """A prompt's history: reason, prediction and outcome in every step that had it."""
    logs = ("rollouts", "judgments")
    found = [
        {row["step"]: row for row in map(_printable, rows) if row["prompt"] == prompt}
        for rows in (run_folder.log_rows(run.folder, log, optional=True) for log in logs)
    ]
    groups, judgments = found
    steps = sorted({*groups, *judgments})
    if not steps:
        raise MetisError(f"--prompt {prompt!r}: the run has no such prompt")
    if text := _texts(run, groups.values(), [prompt]).get(prompt):
        yield Text.assemble(("prompt\n", "bold"), text)
    predicted = _predicted(judgments.values())
    table = _table("step", *_columns(predicted))
    for step in steps:
        told = _outcome(groups.get(step, {}), judgments.get(step, {}), predicted)
        table.add_row(str(step), *told)
    table.caption = f"--step {steps[-1]} --prompt {prompt} shows one of them whole"
    yield table


def _texts(run: Recorded, groups: Iterable[Row], names: Collection[str]) -> dict[str, str]:
    """The texts of prompts, as far as the run has kept them."""
    rows = map(_printable, run_folder.log_rows(run.folder, "prompts", optional=True))
    texts = {row["prompt"]: str(row.get("text", "")) for row in rows if row["prompt"] in names}
    kept_by_groups = {row["prompt"]: str(row["text"]) for row in groups if row.get("text")}
    return kept_by_groups | texts


def _of(run: Recorded, log: str, step: int) -> list[Row]:
    """The rows of a step, all their text safe to print."""
    having = f'"step": {step},'.encode()
    rows = run_folder.log_rows(run.folder, log, optional=True, having=having)
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
    "held-out accuracy": "eval/accuracy",
}
"""Metrics of a step, by the name they are shown under."""
FORMS = {"informative": ".1%", "held-out accuracy": ".3f"}
"""Forms of those that are not shown with three digits."""


def _steps(run: Recorded) -> Table:
    names = [name for name, key in COLUMNS.items() if run.has(key)]
    table = _table("step", *names)
    for row in run.metrics:
        cells = ((row.get(COLUMNS[name]), FORMS.get(name, ".3g")) for name in names)
        shown = ("" if cell is None else format(cell, form) for cell, form in cells)
        table.add_row(str(row["step"]), *shown)
    return table


def _prompts(
    groups: Mapping[str, Row],
    judgments: Mapping[str, Row],
    texts: Mapping[str, str],
    heads: Mapping[str, Row],
    everyone: bool,
) -> RenderableType:
    names = [*groups, *(name for name in judgments if everyone and name not in groups)]
    names.sort(key=lambda name: (name not in groups, -(_score(judgments.get(name, {})) or 0.0)))
    predicted = _predicted(judgments.values())
    rows = []
    for name in names:
        group, judgment = groups.get(name, {}), judgments.get(name, {})
        text = textwrap.shorten(texts.get(name, ""), TEXT, placeholder=" …")
        reference = str(heads.get(name, {}).get("reference") or "")
        expected = textwrap.shorten(reference, EXPECTED, placeholder=" …")
        category = str(group.get("category", ""))
        rows.append((name, text, expected, category, *_outcome(group, judgment, predicted)))
    table = _filled(("prompt", "text", "expected", "category", *_columns(predicted)), rows)
    table.columns[0].min_width = min(ID, max(map(len, names), default=0))
    left = sum(name not in groups for name in judgments)
    if left and not everyone:
        table.caption = f"{left:,} candidates were not chosen: --all shows them"
    return table


def _predicted(judgments: Iterable[Row]) -> bool:
    return any(_score(judgment) is not None for judgment in judgments)


def _columns(predicted: bool) -> tuple[str, ...]:
    """The columns of `_outcome`."""
    return ("reason", *(("v̂",) if predicted else ()), "v", "rewards", "tokens")


def _outcome(group: Row, judgment: Row, predicted: bool) -> tuple[str | Text, ...]:
    """The candidates of a step: reason, prediction if there are any, and outcome."""
    score, tokens = _score(judgment), group.get("tokens", ())
    return (
        str(judgment.get("failure") or judgment.get("reason", "")),
        *(("" if score is None else f"{score:.3f}",) if predicted else ()),
        _variance(judgment, group),
        _marks(group.get("rewards", ()), group.get("failed", 0)),
        f"{sum(tokens) / len(tokens):.0f}" if tokens else "",
    )


def _prompt(
    group: Row | None, judgment: Row, exemplars: Sequence[Row], text: str, head: Row
) -> Iterator[RenderableType]:
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
    expected = head.get("reference")
    for title, said in (("judge", judgment.get("reply")), ("prompt", text), ("expected", expected)):
        if said:
            yield Text.assemble((f"{title}\n", "bold"), str(said))


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


def _filled(names: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> Table:
    """A table without its empty columns; the first one stays."""
    filled = [
        place for place in range(len(names)) if not place or any(len(row[place]) for row in rows)
    ]
    table = _table(*(names[place] for place in filled))
    for row in rows:
        table.add_row(*(row[place] for place in filled))
    return table


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left")
    for name in names:
        table.add_column(name, overflow="fold")
    return table
