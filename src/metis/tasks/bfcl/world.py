"""The simulated APIs of one rollout: instances of its own, and the calls made on them.

The official executor evaluates a policy's text and keeps all instances in the globals of its
module, under names that the rollouts of a task share. Here a call is a name and values, and its
instances go with the rollout.
"""

import copy
import inspect
import json
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from metis.tasks.bfcl import limits
from metis.tasks.bfcl.calls import Call, Refusal
from metis.tasks.bfcl.package import Api

STATELESS = ("MathAPI",)
MISSING = object()
ONE_AT_A_TIME = threading.Lock()
"""Simulators set mpmath's precision and change a dictionary that they all return."""


class World:
    """Fresh instances of some APIs, in the state that a scenario describes."""

    def __init__(
        self, apis: Sequence[Api], scenario: Mapping[str, Any], long_context: bool
    ) -> None:
        self.instances: dict[str, Any] = {}
        self.functions: dict[str, Any] = {}
        for api in apis:
            instance = api.simulator()
            if api.name not in STATELESS:
                own = copy.deepcopy(scenario.get(api.name, {}))
                instance._load_scenario(own, long_context=long_context)
            self.instances[api.name] = instance
            self.functions |= {name: getattr(instance, name) for name in api.functions}

    def call(self, call: Call | Refusal, withheld: Collection[str] = ()) -> str:
        """The result of a call as text; what is wrong with it where it is not made or fails."""
        if isinstance(call, Refusal):
            return f"Error: {call.reason}"
        function = self.functions.get(call.name)
        if function is None or call.name in withheld:
            return f"Error: there is no function {call.name[:100]!r}"
        try:
            self._check(call, function)
        except limits.Exceeded as error:
            return f"Error: {error}"
        positional, named = copy.deepcopy((call.positional, dict(call.named)))  # some are kept
        with ONE_AT_A_TIME:
            try:
                return _written(function(*positional, **named))
            except Exception as error:
                return f"Error during execution: {error}"

    def _check(self, call: Call, function: Any) -> None:
        if call.name in limits.BOUNDS:
            limits.check_arguments(call.name, _bound(call, function))
        if call.name in limits.RECURSIVE:
            files = function.__self__
            for directory in (files.root, files._current_dir):  # which `rm` may have cut off
                limits.check_directory(directory)

    def equals(self, other: "World") -> bool:
        """True where the public attributes of all instances are equal, as the official checker
        compares them."""
        return all(
            getattr(self.instances[name], attribute, MISSING) == value
            for name, instance in other.instances.items()
            for attribute, value in vars(instance).items()
            if not attribute.startswith("_")
        )


def _bound(call: Call, function: Any) -> Mapping[str, Any]:
    """The arguments by parameter; those that do not fit are the function's to complain about."""
    try:
        return inspect.signature(function).bind(*call.positional, **dict(call.named)).arguments
    except TypeError:
        return {}


def _written(result: Any) -> str:
    """A result as the official executor writes it."""
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        try:
            return json.dumps(result)
        except (TypeError, ValueError):
            return str(result)
    return str(result)
