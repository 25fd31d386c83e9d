"""Running a plan to its end: an engine answers each request as it comes."""

import asyncio
from typing import Any, TypeVar

from metis.core import Engine, Plan, Request, Together

T = TypeVar("T")


def drive(plan: Plan[T], engine: Engine) -> T:
    """Run a plan to its end, letting the engine answer each request."""
    reply: Any = None
    while True:
        try:
            request = plan.send(reply)
        except StopIteration as end:
            result: T = end.value
            return result
        reply = _checked(request).ask(engine)


async def adrive(plan: Plan[T], engine: Any) -> T:
    """`drive` for an engine whose methods are coroutines; `Together` really runs together."""

    async def answer(request: Request) -> Any:
        if isinstance(request, Together):
            return tuple(await asyncio.gather(*(answer(part) for part in request.requests)))
        return await request.ask(engine)

    reply: Any = None
    while True:
        try:
            request = plan.send(reply)
        except StopIteration as end:
            result: T = end.value
            return result
        reply = await answer(_checked(request))


def _checked(request: Any) -> Request:
    if not isinstance(request, Request):
        raise TypeError(
            f"the plan yielded a {type(request).__name__}, not a request: ask with "
            "`yield from rollout(...)`, or yield a Rollout, Score, Complete, ..."
        )
    return request
