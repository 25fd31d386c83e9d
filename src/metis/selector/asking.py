"""Requests other than rollouts, answered by a function or an endpoint.

A curriculum whose declared needs cannot be served is refused before anything starts.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from metis.core import (
    Complete,
    Curriculum,
    Embed,
    Fit,
    Measure,
    Predict,
    Request,
    Rollout,
    Score,
)
from metis.core.needs import Needs, needs_of
from metis.curricula import CURRICULA
from metis.curricula.registry import presets
from metis.errors import MetisError
from metis.selector.endpoint import Endpoint
from metis.settings.sections import curriculum_of

Ask = Callable[[Request[Any]], Any]
GIVE_ASK = "give ask=, a function from a request to its reply, or the URL of an endpoint"


def asked(needs: Needs) -> list[type[Request[Any]]]:
    """The requests that a trainer does not answer with rollouts."""
    kinds = needs.asked - {Rollout, Measure}
    return sorted(kinds, key=lambda kind: kind.__name__)


def require_served(name: str, curriculum: Curriculum, ask: Ask | Endpoint | None) -> None:
    """Refuse a curriculum that cannot be served, with what it would need and which ones can be."""
    needs = needs_of(curriculum)
    if needs.trains_judge:
        _refuse(name, "a loss of its own, on the judgments of the policy")
    if needs.held:
        _refuse(name, needs.held)
    kinds = asked(needs)
    if kinds and ask is None:
        _refuse(name, f"answers to {_names(kinds)}: {GIVE_ASK}")
    if isinstance(ask, Endpoint):
        ask.require(name, kinds, needs.depths)


def _refuse(name: str, what: str) -> NoReturn:
    alone, asking = served(ask=False), served(ask=True)
    raise MetisError(
        f"curriculum = {name!r} needs {what}. With rewards alone a selector serves "
        f"{', '.join(alone)}; with ask= also {', '.join(asking)}"
    )


def served(ask: bool) -> Iterator[str]:
    """The curricula that are served without `ask`, or only with it; presets where they differ."""
    for name in CURRICULA:
        choices = list(presets(name)) or [""]
        fitting = [preset for preset in choices if _fits(name, preset, ask)]
        if fitting == choices:
            yield name
        else:
            yield from (f"{name} (preset={preset!r})" for preset in fitting)


def _fits(name: str, preset: str, ask: bool) -> bool:
    section = {"name": name, **({"preset": preset} if preset else {})}
    needs = needs_of(curriculum_of(section, 32, 8))
    return not (needs.trains_judge or needs.held) and bool(asked(needs)) == ask


def _names(kinds: Sequence[type[Request[Any]]]) -> str:
    return " and ".join(kind.__name__ for kind in kinds)


def checked(request: Request[Any], reply: Any) -> Any:
    """The reply to a request as a curriculum expects it, or a refusal."""
    if isinstance(request, Embed):
        return _vectors(request, reply)
    if isinstance(request, Fit):
        return _number(request, reply)
    if isinstance(request, Predict):
        return [_number(request, value) for value in _each(request, reply, request.prompts)]
    if isinstance(request, Complete):
        return _each(request, reply, request.chats)
    if isinstance(request, Score):
        rows = _each(request, reply, request.chats)
        return [
            [_number(request, value) for value in _each(request, row, request.choices)]
            for row in rows
        ]
    return reply


def _vectors(request: Embed, reply: Any) -> list[Any]:
    rows = [_array(request, row) for row in _each(request, reply, request.prompts)]
    if any(row.ndim != 1 or row.shape != rows[0].shape for row in rows):
        shapes = ", ".join(sorted({str(row.shape) for row in rows}))
        _wrong(request, f"arrays of the shapes {shapes}, not one vector of the same length each")
    return rows


def _array(request: Request[Any], row: Any) -> Any:
    if hasattr(row, "detach"):
        row = row.detach().float().cpu().numpy()
    try:
        return np.asarray(row, dtype=np.float32)
    except (TypeError, ValueError) as error:
        _wrong(request, f"{type(row).__name__}, which is no vector ({error})")


def _each(request: Request[Any], reply: Any, asked_for: Sequence[object]) -> Any:
    count = len(reply) if hasattr(reply, "__len__") else None
    if count != len(asked_for):
        said = type(reply).__name__ if count is None else f"{count} values"
        _wrong(request, f"{said} for {len(asked_for)}")
    return reply


def _number(request: Request[Any], value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        _wrong(request, f"{value!r}, which is no number")


def _wrong(request: Request[Any], said: str) -> NoReturn:
    raise MetisError(f"ask answered {type(request).__name__} with {said}")
