"""The text of `metis curricula NAME`: the card and settings of a curriculum."""

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from metis.core.dotted import leaves
from metis.core.needs import needs_of
from metis.curricula.cards import curriculum_card, documented
from metis.curricula.judges import JUDGES
from metis.curricula.registry import curriculum_class, defaults, judge_of, presets


def describe_curriculum(name: str) -> Iterator[str]:
    """Lines about a curriculum, its judges and its presets."""
    kind = curriculum_class(name)
    yield inspect.getdoc(inspect.getmodule(kind)) or ""
    yield f"\n{documented(kind)}\n\nNeeds  {needs_of(kind()).described()}"
    own = judge_of(kind)
    judges = JUDGES if own is not None else {}
    for judge, judging in judges.items():
        yield f"\ncurriculum.judge={judge}: {inspect.getdoc(judging)}"
    yield "\nDefaults"
    yield from _assignments(defaults(kind))
    for judge, judging in judges.items():
        yield f"curriculum.judge={judge}"
        made = own if type(own) is judging else judging()
        yield from _assignments(dict(leaves(made, "curriculum.judge.")))
    for preset, settings in presets(name).items():
        changed = dict(leaves(settings, "curriculum."))
        yield f"curriculum.preset={preset}"
        yield from _assignments(changed) if changed else ["  the defaults"]


def document(name: str) -> dict[str, Any]:
    """The same as JSON; the card is of METIS's own curricula alone."""
    kind = curriculum_class(name)
    card = {} if ":" in name else asdict(curriculum_card(kind))
    return {
        "name": name,
        "summary": (kind.__doc__ or "").partition("\n")[0],
        **({"card": card} if card else {}),
        "needs": needs_of(kind()).described(),
        "defaults": defaults(kind),
        "presets": {preset: dict(settings) for preset, settings in presets(name).items()},
    }


def _assignments(settings: Mapping[str, object]) -> Iterator[str]:
    for key, value in settings.items():
        yield f"  {key.removesuffix('.name')}={json.dumps(value)}"
