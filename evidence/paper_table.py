"""The paper's tables and figures: the command that makes each, and what its runs cost.

Hours are the budgets of the recipes. Steps are what the estimate of a step on verl makes of them.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import scale_tables

from metis.engines.local.estimate.shape import ModelShape
from metis.engines.verl import estimate
from metis.text import markdown_table

RECIPES = Path(__file__).resolve().parents[1] / "recipes"
MATHEMATICS = ("math/qwen3-8b-base", "math/qwen3-4b-base", "math/llama-3.1-8b-instruct")
PROGRAMS = (
    "code/qwen3-8b-base",
    "code/llama-3.1-8b-instruct",
    "code/deepseek-r1-distill-llama-8b",
)
GPUS = 8
NONE = "–"


class Item(NamedTuple):
    """Tables or figures that one command makes, with so many runs of each recipe; without a recipe
    they are of another's runs, or of none."""

    paper: str
    command: str
    recipes: tuple[str, ...] = ()
    runs: int = 0


ABLATIONS = "[its two commands](comparing.md#the-papers-two-tables)"
ITEMS = (
    Item("Table 1, mathematics", "*main*", MATHEMATICS, 5),
    Item("Table 1, programs", "*main* without `METIS_DATA`, `--suite code`", PROGRAMS, 5),
    Item("Figures 3, 7 to 9: accuracy over hours, mean |A|", "the same; `cmp/report.html`"),
    Item("Figure 4: reward on an easy set", "*main*", ("math/qwen3-4b-base-math",), 5),
    Item("Tables 2 and 6, Figures 6 and 10: λ and K", ABLATIONS, ("math/qwen3-4b-base",), 8),
    Item("Figure 5: overhead", "seconds and tokens of Table 1's runs: `cmp/report.html`"),
    Item("Table 3: function calling", "*agents*", ("bfcl/qwen3-4b-instruct",), 2),
    Item("Tables 4 and 5: hyperparameters", "`metis train RECIPE --dry-run`"),
)


def table() -> str:
    """A row for each, and for each recipe of one."""
    heads = ["paper", "command", "RECIPE", "runs", "hours each", f"GPU-hours on {GPUS} H200s"]
    rows = [[*heads, "steps of a run there"]]
    for item in ITEMS:
        if not item.recipes:
            rows.append([item.paper, item.command, *[NONE] * 5])
        for place, name in enumerate(item.recipes):
            said = [item.paper, item.command] if not place else ["", ""]
            rows.append([*said, f"`{name}`", *_cost(name, item.runs)])
    return markdown_table(rows)


def _cost(name: str, runs: int) -> Iterator[str]:
    recipe = tomllib.loads((RECIPES / f"{name}.toml").read_text("utf-8"))
    hours = recipe["seconds"] / 3600
    yield from (str(runs), f"{hours:.0f}", f"{runs * hours * GPUS:,.0f}")
    model = recipe["engine"]["model"].removeprefix("Qwen/").removesuffix("-Base")
    if model not in scale_tables.MODELS or recipe["batch"] != scale_tables.PAPER.prompts:
        yield NONE
        return
    shape, settings = (
        ModelShape.described(scale_tables.MODELS[model]),
        scale_tables.settings(GPUS, 0),
    )
    step = estimate.seconds(shape, settings, scale_tables.PAPER).step
    yield f"{recipe['seconds'] / step:,.0f}"
