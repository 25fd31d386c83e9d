"""Writes docs/settings.md from what the settings say of themselves: `make docs`."""

import inspect
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any

from metis.curricula.floors import Floor
from metis.engines import ENGINES
from metis.engines.training_settings import TrainingSettings
from metis.settings.keys import SETTINGS
from metis.settings.training import Checkpoints, RunSettings
from metis.tasks.registry import TASKS

PAGE = Path(__file__).with_name("settings.md")
HEAD = """\
# Settings

Every key can stand in a recipe (TOML), or on the command line as key=value:

```
metis train recipes/arithmetic/hopeless-90.toml engine.lora=16 curriculum.explore=0.2 --dry-run
```

- `--dry-run` prints every setting of the run as a recipe, and where its value comes from: command
  line, recipe, quickstart, preset, data or default. Below are the rollouts and tokens of a step
  and, on the local engine with a model that is here, what generates (`engine.generation=auto`), and
  estimates of its peak memory and its seconds.
  Model and data need not be fetched yet; what is there is checked, and refused as the run would.
  The command of `engine=verl` needs the data. With the `--out` of a run it says where that would
  resume, and what would change. With `--json` it prints the run's `config.json`.
- Without a recipe, and with no other engine or task named, the quickstart's settings hold: 8 steps,
  answers of 16 tokens, learning rate 2e-5. A line says so where any setting is given.
- Keys marked *resume* may change when a run is resumed.
- The settings of a curriculum, `curriculum.*`, are on [its page](curricula.md) and in
  `metis curricula NAME`.

This page is made from the docstrings by `make docs`; change them, not it.
"""
KNOB = re.compile(r"^(\w+(?:, \w+)*) +(.*)$")


def page() -> str:
    parts = [
        HEAD,
        section("A run", RunSettings, "", RunSettings.MAY_CHANGE),
        section("", Checkpoints, "checkpoints.", ("every", "keep")),
        section("Engines that train a model: local, verl", TrainingSettings, "engine."),
    ]
    for name, engine in ENGINES.items():
        may_change = getattr(engine.settings, "MAY_CHANGE", ())
        parts.append(section(f"engine={name}", engine.settings, "engine.", may_change))
    parts.append(section("Floors", Floor, "curriculum.floors."))
    parts += [section(f"task={name}", task.settings, "task.") for name, task in TASKS.items()]
    parts.append(elsewhere())
    return "\n".join(parts)


def elsewhere() -> str:
    """Settings under their names in other trainers."""
    lines = ["## Coming from TRL or verl\n", "GRPO without a curriculum is `curriculum=uniform`.\n"]
    lines += ["| there | here |", "|---|---|"]
    for key, words in SETTINGS.items():
        lines.append(f"| {', '.join(f'`{word}`' for word in words)} | `{key}` |")
    return "\n".join(lines) + "\n"


def section(title: str, kind: type, prefix: str, may_change: Sequence[str] = ()) -> str:
    """The knobs that a class has beside those of its base."""
    inherited = {
        knob.name for base in kind.__bases__ if is_dataclass(base) for knob in fields(base)
    }
    own = [knob for knob in fields(kind) if knob.name not in inherited]
    about, described = read(kind)
    lines = [f"## {title}\n"] if title else []
    lines += [f"{about}\n", "| key | default | meaning | may change |", "|---|---|---|---|"]
    for knob in own:
        default = _default(knob)
        if is_dataclass(default):
            continue
        mark = "*resume*" if knob.name in may_change else ""
        text = described.pop(knob.name).replace("|", "\\|")
        lines.append(f"| `{prefix}{knob.name}` | `{json.dumps(default)}` | {text} | {mark} |")
    if described:
        raise ValueError(f"{kind.__name__} has no {', '.join(described)}")
    shared = [name for name in may_change if name in inherited]
    if shared:
        lines.append(
            f"\nMay also change on *resume*: {', '.join(f'`{prefix}{name}`' for name in shared)}."
        )
    return "\n".join(lines) + "\n"


def read(kind: type) -> tuple[str, dict[str, str]]:
    """The summary of a class from its docstring, and the line of each knob."""
    about, _, rest = (inspect.getdoc(kind) or "").partition("\n\n")
    return " ".join(about.split()), dict(_knobs(rest))


def _knobs(text: str) -> Iterator[tuple[str, str]]:
    """Each begins a line with its name, or the names of several; further lines are indented."""
    for block in re.split(r"\n(?=\S)", text):
        match = KNOB.match(" ".join(block.split()))
        if match is None:
            raise ValueError(f"no knob: {block!r}")
        for name in match[1].split(", "):
            yield name, match[2]


def _default(knob: "Field[Any]") -> Any:
    return knob.default_factory() if knob.default_factory is not MISSING else knob.default


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
