"""Any curriculum in anyone's trainer: it proposes prompts, and observes their rewards."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metis.selector.endpoint import Endpoint
    from metis.selector.plans import Pick
    from metis.selector.selection import AsyncSelector, Selector

__all__ = ["AsyncSelector", "Endpoint", "Pick", "Selector"]

_HOMES = {
    "AsyncSelector": "selection",
    "Endpoint": "endpoint",
    "Pick": "plans",
    "Selector": "selection",
}
"""Modules of the public names; each is imported when its name is first used."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
