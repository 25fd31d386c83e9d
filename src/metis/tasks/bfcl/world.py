"""The simulated APIs of one rollout, and calls on them.

The official executor runs `eval` on a policy's text, and keeps instances in its module's globals,
shared by all rollouts of a task. Here a call is a name with plain values, and every rollout has its
own instances.
"""

import inspect
import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any

from metis.tasks.bfcl import limits
from metis.tasks.bfcl.calls import ApiCall, RefusedCall
from metis.tasks.bfcl.package import Api

STATELESS = ("MathAPI",)
MISSING = object()
CONTAINERS = (dict, list, tuple, set)
ONE_AT_A_TIME = threading.Lock()
"""A lock: simulators set mpmath's global precision and modify a shared dictionary."""


class World:
    """Fresh instances of some APIs, in the state that a scenario describes."""

    def __init__(
        self, apis: Sequence[Api], scenario: Mapping[str, Any], long_context: bool
    ) -> None:
        self.instances: dict[str, Any] = {}
        self.functions: dict[str, Any] = {}
        self.given = 0
        """Number of values passed to calls so far, which the APIs may store."""
        for api in apis:
            instance = api.simulator()
            if api.name not in STATELESS:
                instance._load_scenario(own(scenario.get(api.name, {})), long_context=long_context)
            if long_context:  # distractors are the module's own dictionaries
                vars(instance).update(own(vars(instance)))
            self.instances[api.name] = instance
            self.functions |= {name: getattr(instance, name) for name in api.functions}

    def make(
        self, calls: Sequence[ApiCall | RefusedCall], withheld: Collection[str] = ()
    ) -> list[str]:
        """The results of the calls of one reply."""
        reply, outputs = limits.ReplyCost(), list[str]()
        for call in calls:
            outputs.append(self.call(call, withheld, reply))
            reply.results += len(outputs[-1])
        return outputs

    def call(
        self,
        call: ApiCall | RefusedCall,
        withheld: Collection[str] = (),
        reply: limits.ReplyCost | None = None,
    ) -> str:
        """The result of a call as text, or why it was refused or failed; never raises."""
        if isinstance(call, RefusedCall):
            return f"Error: {call.reason}"
        function = self.functions.get(call.name)
        if function is None or call.name in withheld:
            return f"Error: there is no function {call.name[:100]!r}"
        try:
            self._check(call, function, reply or limits.ReplyCost())
            positional, named = _arguments(call, function)
            with ONE_AT_A_TIME:
                return _written(function(*positional, **named))
        except limits.Exceeded as error:
            return f"Error: {error}"
        except Exception as error:
            return f"Error during execution: {_said(error)}"

    def _check(self, call: ApiCall, function: Any, reply: limits.ReplyCost) -> None:
        given = sum(map(limits.values, call.positional))
        given += sum(limits.values(value) for _, value in call.named)
        reply.check(self.given + given)
        if call.name in limits.CHECKED:
            self._check_cost(call, function)
        self.given += given

    def _check_cost(self, call: ApiCall, function: Any) -> None:
        bound = _bound(call, function)
        arguments = bound.arguments if bound else {}
        limits.check_arguments(call.name, arguments)
        if call.name in limits.RECURSIVE:
            files, path = function.__self__, arguments.get("path")
            length = len(path) if isinstance(path, str) else 1
            limits.check_directory(files.root, length)
            if files._current_dir is not files.root:  # which `rm` may have cut off
                limits.check_directory(files._current_dir, length)

    def equals(self, other: "World") -> bool:
        """True where the public attributes of all instances are equal, as the official checker
        compares them; what cannot be compared is not equal."""
        try:
            return all(
                getattr(self.instances[name], attribute, MISSING) == value
                for name, instance in other.instances.items()
                for attribute, value in vars(instance).items()
                if not attribute.startswith("_")
            )
        except Exception:  # such as RecursionError
            return False


def own(value: Any) -> Any:
    """A copy that shares no list, dictionary or set; quicker than `copy.deepcopy`."""
    if isinstance(value, dict):
        return {
            key: own(each) if isinstance(each, CONTAINERS) else each for key, each in value.items()
        }
    if isinstance(value, CONTAINERS):
        return type(value)(own(each) if isinstance(each, CONTAINERS) else each for each in value)
    return value


def _arguments(call: ApiCall, function: Any) -> tuple[Any, Any]:
    """The arguments of a call, none of them another's: simulators keep some, and add to them."""
    positional, named = call.positional, dict(call.named)
    if _defaults_can_change(function.__func__) and (bound := _bound(call, function)):
        bound.apply_defaults()
        positional, named = bound.args, bound.kwargs
    return own(positional), own(named)


@cache
def _defaults_can_change(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(isinstance(each.default, list | dict | set) for each in parameters)


def _bound(call: ApiCall, function: Any) -> inspect.BoundArguments | None:
    """The arguments by parameter; None where they do not fit, which the function says itself."""
    try:
        return inspect.signature(function).bind(*call.positional, **dict(call.named))
    except TypeError:
        return None


def _said(error: Exception) -> str:
    """The message of an exception, or its type where it has none that can be written."""
    try:
        return str(error)
    except Exception:  # such as a number of more digits than Python writes
        return type(error).__name__


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
