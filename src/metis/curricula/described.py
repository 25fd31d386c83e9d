"""The text of `metis curricula NAME`: the card and settings of a curriculum."""

import inspect
import json
from collections.abc import Iterator, Mapping

from metis.core.dotted import leaves
from metis.core.needs import needs_of
from metis.curricula.cards import documented
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


def _assignments(settings: Mapping[str, object]) -> Iterator[str]:
    for key, value in settings.items():
        yield f"  {key.removesuffix('.name')}={json.dumps(value)}"
