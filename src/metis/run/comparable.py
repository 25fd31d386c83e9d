"""Decides which runs' validations are comparable: same prompts, same conditions."""

from collections.abc import Iterator, Sequence
from typing import Any

from metis.run.manifest import differences
from metis.run.recorded import Recorded

CONDITIONS = (
    *("benchmarks", "benchmark_limit", "engine.max_tokens", "engine.episode_tokens"),
    *("task.name", "task.instruction", "task.examples", "task.dataset", "task.config"),
    *("task.match", "task.reward", "task.rewards", "task.verify", "task.checkers", "task.seconds"),
    *("task.steps", "task.output", "task.abstention", "task.spare_calls"),
)
"""Settings of the answers to a validation, and of how they are scored."""
DRAWN = (
    *("task.heldout", "task.heldout_path", "task.heldout_shares"),
    *("engine.prompts", "engine.heldout", "engine.hardness", "engine.spread", "engine.skills"),
)
"""Settings of held-out prompts, which are not those of benchmarks; `engine.` those of the simulated
engine."""
SHOWN = 60
"""Characters of a value."""


def why_not(run: Recorded, other: Recorded) -> str:
    """How the validations of a run differ from another's; empty where they are alike, as far as is
    recorded."""
    return "; ".join([*_settings(run, other), *_changes(run, other), *_prompts(run, other)])


def groups(runs: Sequence[Recorded]) -> list[list[Recorded]]:
    """Runs that are validated alike, in the order of the first of each group."""
    found: list[list[Recorded]] = []
    for run in runs:
        alike = (group for group in found if not any(why_not(run, other) for other in group))
        group = next(alike, None)
        if group is None:
            found.append([run])
        else:
            group.append(run)
    return found


def unlike(ours: Any, theirs: Any) -> list[str]:
    """The conditions in which settings differ from others; what only one of them knows is of
    another version."""
    named = (*CONDITIONS, *(() if ours.get("benchmarks") else DRAWN))
    return [
        f"{key} = {_value(mine)}, not {_value(its)}"
        for key, its, mine in differences(_short(theirs), _short(ours))
        if mine is not None and its is not None and _is_of(key, named)
    ]


def _settings(run: Recorded, other: Recorded) -> list[str]:
    if run.simulated != other.simulated:
        return ["simulated" if run.simulated else "not simulated"]
    return unlike(run.config, other.config)


def _changes(run: Recorded, other: Recorded) -> Iterator[str]:
    """Conditions that one of the runs changed during training and the other did not."""
    ours, theirs = ([_change(row) for row in each.changes] for each in (run, other))
    for key, step in dict.fromkeys([*ours, *theirs]):
        if _is_of(key, CONDITIONS) and ((key, step) in ours) != ((key, step) in theirs):
            which = "was" if (key, step) in ours else "was not"
            yield f"{key} {which} changed at step {step:,}"


def _change(row: dict[str, Any]) -> tuple[str, int]:
    return str(row["key"]), int(row["step"])


def _prompts(run: Recorded, other: Recorded) -> Iterator[str]:
    """A difference in validation prompts, if both runs logged theirs and share the data seed."""
    if not run.config.get("benchmarks") and _data(run) != _data(other):
        return
    ours, theirs = (_tested(each) for each in (run, other))
    if ours and theirs and ours != theirs:
        yield (
            f"{len(ours):,} validation prompts, of which {len(ours & theirs):,} are among the "
            f"other's {len(theirs):,}"
        )


def _data(run: Recorded) -> Any:
    """The seed that held-out prompts are sampled with."""
    seed = run.config.get("data_seed")
    return run.config.get("seed") if seed is None else seed


def _tested(run: Recorded) -> frozenset[str]:
    """The prompts of the first validation that was logged."""
    return frozenset(next(iter(run.rewards.values()), {}))


def _is_of(key: str, named: Sequence[str]) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in named)


def _short(value: Any) -> Any:
    """Settings with the last component of each path: the same file may lie in another folder."""
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in value]
    return value.rpartition("/")[2] if isinstance(value, str) and " " not in value else value


def _value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
