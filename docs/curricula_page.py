"""Writes docs/curricula.md from what the curricula say of themselves: `make docs`."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

from metis.core.needs import needs_of
from metis.curricula import CURRICULA
from metis.curricula.cards import Card, curriculum_card, documented_settings
from metis.curricula.judges import JUDGES
from metis.curricula.registry import defaults, presets
from metis.library.training import curriculum

PAGE = Path(__file__).with_name("curricula.md")
HEAD = """\
# Curricula

```
metis train recipes/arithmetic/hopeless-90.toml curriculum=dapo      # trains with one
metis curricula dapo                                                 # the same text in a terminal
```

![When curricula act: before rollouts, after them, or both](figures/curricula.svg)

[Which curriculum?](choosing.md#which-curriculum) goes from what is known of a training set to what
to compare. [Adding a curriculum](adding-a-curriculum.md) shows how to write another. This page is
made from the docstrings by `make docs`; change them, not it.

| symbol | meaning |
|---|---|
| B, n | prompts a step (`batch`), rollouts of each (`group`) |
| m | candidates for each place in the batch (`multiplier`): m·B candidates a step |
| candidate | a prompt drawn from the pool in a step, of which B are chosen |
| v | variance of the rewards of a prompt's group |
| informative | v > 1e-6: rewards differ; `dapo`, `greso` and `speed` have the bound as `delta` |
| zero-variance | not informative: all-pass or all-fail; `dead` in metrics and reasons |

A preset sets several knobs at once (`curriculum.preset=NAME`; `metis curricula NAME` lists them):

| preset | settings |
|---|---|
| `published` | those of the method's authors |
| `paper` | those of the METIS paper, for METIS itself or as a baseline |
| `recommended` | the default of METIS: judgments are log-probabilities |
| `readout` | METIS whose judge is a [regression on hidden states](judge.md#which-judge) |

*Costs* are in addition to the B·n rollouts of a training step.

**Floors.** Under any curriculum, `curriculum.floors` keeps prompts and categories from starving: it
reserves slots of the batch for what has waited longest ([settings](settings.md#floors)).

```
metis train RECIPE curriculum=mopps curriculum.floors.prompts=10 curriculum.floors.categories=1
```

A curriculum that filters after rollouts filters these groups too; steps that only measure have no
floor.

**Filters.** After any curriculum that selects before the rollouts (but `dots`, which replays some),
`filter` drops groups that would teach nothing: `dapo` those without variance, `ragen2` those of low
variance, with their knobs as `filter.rounds`, ... In a recipe it is `filter`, or a table of that
name, of `[curriculum]`.

```
metis train RECIPE curriculum=metis filter=dapo
```

It rolls out what the curriculum selects (`multiplier` is 1 here) and, with more than one round,
lets it select again until the batch is full. The curriculum learns from what is dropped, too, and
dropped rollouts count as `select/discarded`.
"""
ARXIV = re.compile(r"arXiv[ :]\d{4}\.\d{4,5}")
COLUMNS = ("name", "acts", "needs", "costs", "continuous rewards", "reference")


def page() -> str:
    cards = {name: curriculum_card(kind) for name, kind in CURRICULA.items()}
    return "\n".join([HEAD, *table(cards), "", *(section(*item) for item in cards.items())])


def table(cards: dict[str, Card]) -> Iterator[str]:
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    for name, it in cards.items():
        papers = ", ".join(ARXIV.findall(it.reference)) or it.reference
        needs = described(name)
        cells = [it.acts, needs, it.costs, it.continuous, papers]
        yield f"| [{name}](#{name}) | {' | '.join(plain(cell.rstrip('.')) for cell in cells)} |"


def described(name: str) -> str:
    """What a curriculum asks of an engine and of its data, by preset where presets differ."""
    made = {preset: curriculum(name, preset=preset) for preset in presets(name)}
    needs = {preset: needs_of(each).described() for preset, each in made.items()}
    default = needs_of(CURRICULA[name]()).described()
    if set(needs.values()) <= {default}:
        return default
    own = {preset: words.removeprefix(f"{default}; ") for preset, words in needs.items()}
    return "; ".join(f"{words} (`{preset}`)" for preset, words in own.items())


def section(name: str, it: Card) -> str:
    deviations = [f"{i}. {plain(text)}" for i, text in enumerate(it.deviations, 1)]
    note = plain(it.note) if it.note else ""
    names = ", ".join(f"`{preset}`" for preset in presets(name))
    lines = [
        f"## {name}\n",
        f"{plain(it.summary)}\n",
        f"**Idea.** {plain(it.idea)}\n",
        f"**Equation.** {plain(it.equation)}\n",
        f"**Reference.** {plain(it.reference)}\n",
        *([f"**Presets.** {names}.\n"] if names else []),
        f"**Deviations** {note}".rstrip() + ("\n" if deviations else ""),
        *deviations,
        *settings(CURRICULA[name](), "curriculum."),
    ]
    if name == "metis":
        for judge, kind in JUDGES.items():
            lines += [f"\n`curriculum.judge={judge}`: {plain(summary(kind))}"]
            lines += settings(kind(), "curriculum.judge.")
    return "\n".join(lines) + "\n"


def settings(made: object, prefix: str) -> Iterator[str]:
    """A table of the settings that `made` has of its own, with their defaults."""
    rows = list(_rows(made, prefix))
    if rows:
        yield from ["", "| setting | default | |", "|---|---|---|", *rows]


def _rows(made: object, prefix: str) -> Iterator[str]:
    described = documented_settings(type(made))
    for field in fields(made):  # type: ignore[arg-type]
        name, value = field.name, getattr(made, field.name)
        if not field.init or name in ("batch", "group"):
            continue
        if is_dataclass(value) and name != "judge":
            yield from _rows(value, f"{prefix}{name}.")
            continue
        shown = defaults(type(made))[f"{prefix}judge"] if name == "judge" else value
        default = json.dumps(round(shown, 6) if isinstance(shown, float) else shown)
        yield f"| `{prefix}{name}` | `{default}` | {plain(described[name])} |"


def summary(kind: type) -> str:
    return (kind.__doc__ or "").partition("\n")[0]


def plain(text: str) -> str:
    """Markdown that shows `text` as it is, code spans kept, arXiv numbers as links."""
    pieces = re.split(r"(`[^`]*`)", text)
    pieces[::2] = [_symbols(piece) for piece in pieces[::2]]
    whole = "".join(pieces)
    return ARXIV.sub(lambda match: f"[{match[0]}](https://arxiv.org/abs/{match[0][6:]})", whole)


def _symbols(text: str) -> str:
    text = re.sub(r"\b\*\b", "·", text).replace("<-", "←")
    return re.sub(r"([*|<\[\]])", r"\\\1", text)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
