"""Runs a plan: the engine answers each request that it yields."""

from typing import Any, TypeVar

from metis.core.requests import Engine, Plan, Request

T = TypeVar("T")


def drive(plan: Plan[T], engine: Engine) -> T:
    """Run a plan and return its result; the engine answers each request that it yields."""
    reply: Any = None
    while True:
        try:
            request = plan.send(reply)
        except StopIteration as end:
            result: T = end.value
            return result
        reply = engine.answer(_checked(request))


def _checked(request: Any) -> Request[Any]:
    if not isinstance(request, Request):
        raise TypeError(
            f"the plan yielded a {type(request).__name__}, not a request: ask with "
            "`yield from rollout(...)`, or yield a Rollout, Score, Complete, ..."
        )
    if not request.method:
        raise TypeError(
            f"{type(request).__name__} has no `method`: set it to the name of the engines' method "
            "that answers it"
        )
    return request
