"""A dry run: every setting with its value and origin, as TOML, and what a step will cost."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from rich.console import Console
from rich.text import Text

from metis.config import Config
from metis.config.origins import COMMAND_LINE, DEFAULT
from metis.core import Embed
from metis.core.needs import needs_of
from metis.curricula import CURRICULA
from metis.curricula.cards import curriculum_card
from metis.curricula.registry import candidates
from metis.tasks.base import takes_turns
from metis.view.step_costs import step_costs

WIDEST = 44
"""Columns of a setting, after which its origin is no longer aligned."""

STYLES = {DEFAULT: "dim", COMMAND_LINE: "bold cyan"}
"""Colours of origins; the others have one of their own."""


def show(config: Config, console: Console) -> None:
    """Print the settings, which make a recipe, and the estimate as its comments."""
    settings = {key: value for key, value in config.resolved.items() if key != "schema"}
    rows = list(_rows(settings, config.origins))
    width = max(len(row) for row, _ in rows if len(row) <= WIDEST)
    for row, origin in rows:
        if origin is None:
            console.print(Text(row, "bold"))
        else:
            comment = Text(f"# {origin}", STYLES.get(origin, "green"))
            console.print(Text.assemble(f"{row:<{width}}  ", comment))
    console.print()
    for line in chain(estimate(config), step_costs(config)):
        console.print(Text(f"# {line}"))


def _rows(
    section: Mapping[str, Any], origins: Mapping[str, str], path: str = ""
) -> Iterator[tuple[str, str | None]]:
    """Lines of TOML with their origins; headings have none. Own keys come before sections."""
    inner = {key: value for key, value in section.items() if isinstance(value, dict) and value}
    for key, value in section.items():
        if key not in inner:
            line = f"{_key(key)} = {_toml(value)}" if value is not None else f"# {key} is not set"
            yield line, origins[path + key]
    for key, value in inner.items():
        yield "", None
        yield f"[{path}{_key(key)}]", None
        yield from _rows(value, origins, f"{path}{key}.")


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(k)} = {_toml(v)}' for k, v in value.items())}}}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def estimate(config: Config) -> Iterator[str]:
    """Rollouts, tokens and judgments, as far as the settings tell."""
    training = config.training
    rollouts, longest = training.batch * training.group, _longest(config)
    line = f"a step:     {training.batch:,} prompts x {training.group:,} = {rollouts:,} rollouts"
    yield f"{line} to train on{_tokens(rollouts, longest)}"
    yield from _beside(config)
    steps = training.steps
    total = steps * rollouts
    line = f"{steps:,} steps, {total:,} rollouts to train on{_tokens(total, longest)}"
    limits = {"tokens": "generated tokens", "processed": "total tokens", "seconds": "seconds"}
    ends = [f"{n:,} {what}" for key, what in limits.items() if (n := getattr(training, key))]
    until = f"until {' or '.join(ends)} are spent" if ends else ""
    yield f"the run:    {'; at most '.join(filter(None, [until, line if steps else '']))}"
    if config.task is not None:
        answers, times = len(config.task.heldout()), _validations(steps, training.evaluate)
        yield f"validation: {answers:,} answers{_tokens(answers, longest)}, {times}"


def _longest(config: Config) -> int:
    """Tokens of an answer, at most; 0 where the settings do not bound the whole of it."""
    if config.task is not None and takes_turns(config.task):
        return getattr(config.engine, "episode_tokens", 0)
    return getattr(config.engine, "max_tokens", 0)


def _tokens(answers: int, longest: int) -> str:
    return f", at most {answers * longest:,} generated tokens" if longest else ""


def _beside(config: Config) -> Iterator[str]:
    """Cost of the curriculum and of its filter in a step beside these rollouts."""
    curriculum: Any = config.curriculum
    sieve = config.resolved["curriculum"].get("filter")
    batch = math.ceil(sieve["multiplier"] * curriculum.batch) if sieve else curriculum.batch
    if hasattr(curriculum, "judge"):
        pool, needs = config.pool(), needs_of(curriculum)
        drawn = candidates(curriculum, batch)
        drawn = drawn if pool is None else min(drawn, len(pool))
        again = f" and up to {needs.replay:,} earlier outcomes" if needs.replay else ""
        written = _tokens(drawn, needs.sampling.max_tokens if needs.sampling else 0)
        done = [f"{drawn:,} candidates{again} judged"] if needs.judges else []
        done += [f"{drawn:,} candidates read"] if Embed in needs.requests else []
        done = done or [f"{drawn:,} candidates predicted"]
        yield f"  beside:   {', '.join(done)}{written or ', none generated'}"
    elif kind := CURRICULA.get(config.curriculum_name):
        yield f"  beside:   {curriculum_card(kind).costs}"
    if sieve:
        most, rollouts = sieve["rounds"], batch * curriculum.group
        also = "; in each, what is beside" if most > 1 else ""
        yield f"  filter:   {most:,} round{'s' * (most > 1)} of {rollouts:,} rollouts at most{also}"


def _validations(steps: int, every: int) -> str:
    if not steps:
        return f"before, every {every} steps, and after" if every else "before and after"
    between = len({*range(every, steps, every)}) if every else 0
    return f"{between + 2} times"
