"""The package `bfcl-eval`: dialogues, documentation and the simulated APIs, all from its wheel.

The Berkeley Function Calling Leaderboard (Yan et al., 2024), Apache-2.0. Its multi-turn part needs
none of the package's dependencies but mpmath.
"""

import importlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from metis.data.fetched import Wheel
from metis.errors import MetisError, pip_install

WHEEL = Wheel(
    project="bfcl-eval",
    version="2026.3.23",
    sha256="3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a",
    megabytes=1.9,
    parts=(
        "bfcl_eval/__init__.py",
        "bfcl_eval/constants/__init__.py",
        "bfcl_eval/constants/executable_backend_config.py",
        "bfcl_eval/data/BFCL_v4_multi_turn_",
        "bfcl_eval/data/multi_turn_func_doc/",
        "bfcl_eval/data/possible_answer/BFCL_v4_multi_turn_",
        "bfcl_eval/data/unused_datasets/possible_answer/BFCL_v4_multi_turn_composite",
        "bfcl_eval/data/unused_datasets/question/BFCL_v4_multi_turn_composite",
        "bfcl_eval/eval_checker/__init__.py",
        "bfcl_eval/eval_checker/multi_turn_eval/",
    ),
)

SOURCE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
FILES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
"""The APIs of the multi-turn dialogues, and the names of their files."""

DESCRIPTION = "Tool description:"
"""Before it a function's documentation describes its API, after it the function."""


@dataclass(frozen=True)
class Function:
    """A function as its documentation describes it."""

    api: str
    name: str
    purpose: str
    parameters: Mapping[str, Mapping[str, Any]]
    required: frozenset[str]


@dataclass(frozen=True)
class Api:
    """A simulated API: what it is for, its functions by name, and the class that simulates it."""

    name: str
    purpose: str
    functions: Mapping[str, Function]
    simulator: type[Any]


def folder() -> Path:
    """The unpacked package."""
    return WHEEL.unpacked()


@cache
def apis() -> dict[str, Api]:
    """All APIs by name."""
    return {name: _api(name) for name in FILES}


def _api(name: str) -> Api:
    documents = lines(f"multi_turn_func_doc/{FILES[name]}.json")
    purpose = documents[0]["description"].partition(DESCRIPTION)[0].strip()
    functions = {each["name"]: _function(name, each) for each in documents}
    return Api(name, purpose, functions, _simulator(name))


def _function(api: str, document: Mapping[str, Any]) -> Function:
    parameters = document["parameters"]
    return Function(
        api,
        document["name"],
        " ".join(document["description"].partition(DESCRIPTION)[2].split()),
        parameters["properties"],
        frozenset(parameters.get("required", ())),
    )


def lines(name: str) -> list[dict[str, Any]]:
    """The objects of a file of the package's data."""
    with (folder() / "bfcl_eval" / "data" / name).open("rb") as file:
        return [json.loads(line) for line in file if line.strip()]


def _simulator(name: str) -> type[Any]:
    """A class of the unpacked package, which is on Python's path for the import alone."""
    place = str(folder())
    loaded = sys.modules.get("bfcl_eval")
    if loaded is not None and place not in str(loaded.__file__):
        raise MetisError(
            f"task = 'bfcl': another bfcl_eval is loaded, from {loaded.__file__}; leave it out of "
            f"this process, or use {WHEEL.requirement} through METIS alone"
        )
    sys.path.insert(0, place)
    try:
        kind: type[Any] = getattr(importlib.import_module(f"{SOURCE}.{FILES[name]}"), name)
    except ModuleNotFoundError as error:
        raise MetisError(f"task = 'bfcl': {error}: {pip_install('bfcl')}") from None
    finally:
        sys.path.remove(place)
    return kind
