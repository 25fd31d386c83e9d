"""A task by its name, or by where its class can be imported from.

The class of a user is its own settings: if it is a dataclass, its init fields are settings.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import PydanticSchemaGenerationError, TypeAdapter

from metis.core import Prompt
from metis.core.importing import import_object, is_import_string
from metis.core.pool import Rewards
from metis.errors import MetisError, located
from metis.tasks.base import Task
from metis.tasks.registry import TASKS, TaskEntry

T = TypeVar("T")

METHODS = ("training", "heldout", "episode")
CONTRACT = (
    "a task has training() and heldout(), which give prompts, episode(prompt), and rewards, which "
    'is "binary" or "continuous": docs/tasks.md'
)


def task_entry(name: str) -> TaskEntry:
    """The task that a name stands for; `name` is in TASKS, or has a colon."""
    if not is_import_string(name):
        return TASKS[name]
    kind = import_object("task", name)
    if not isinstance(kind, type):
        raise _refusal(name, f"it is {kind!r}, not a class")
    for method in METHODS:
        if not callable(getattr(kind, method, None)):
            raise _refusal(name, f"{kind.__name__} has no method {method!r}")
    return TaskEntry(_settings(name, kind), partial(_build, name, kind))


def _settings(name: str, kind: type[Any]) -> type[Any]:
    """A class's settings as a dataclass, which is checked before the class is called."""
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    try:
        hints = get_type_hints(kind) if fields else {}
    except NameError as error:
        raise MetisError(
            f"task = {name!r}: the type of a field of {kind.__name__} cannot be read ({error}); "
            "import it where it is there at run time, not under TYPE_CHECKING"
        ) from None
    knobs = [
        (
            knob.name,
            hints[knob.name],
            dataclasses.field(default=knob.default, default_factory=knob.default_factory),
        )
        for knob in fields
        if knob.init
    ]
    settings = dataclasses.make_dataclass(kind.__name__, knobs, frozen=True, kw_only=True)
    try:
        TypeAdapter(settings)
    except PydanticSchemaGenerationError:
        raise MetisError(
            f"task = {name!r}: a field of {kind.__name__} has a type that no setting can have; "
            "make it field(init=False)"
        ) from None
    return settings


def _build(name: str, kind: type[Task], settings: Any, seed: int) -> Task:
    """Make the task, and refuse one that an engine could not play."""
    knobs = {knob.name: getattr(settings, knob.name) for knob in dataclasses.fields(settings)}
    task = _called(name, kind.__name__, partial(kind, **knobs))
    if getattr(task, "rewards", None) not in get_args(Rewards):
        raise _refusal(name, f"{kind.__name__} does not say what its rewards are")
    training, heldout = (
        _prompts(name, method, _called(name, method, getattr(task, method)))
        for method in ("training", "heldout")
    )
    seen = set()
    for prompt in (*training, *heldout):
        if prompt.id in seen:
            raise _refusal(name, f"two prompts are called {prompt.id!r}")
        seen.add(prompt.id)
    episode = _called(name, "episode", partial(task.episode, training[0]))
    for part in ("chat", "reply", "reward"):
        if not hasattr(episode, part):
            raise _refusal(name, f"{type(episode).__name__}, its episode, has no {part!r}")
    return task


def _prompts(name: str, method: str, prompts: Any) -> Sequence[Prompt]:
    if not isinstance(prompts, Sequence) or not all(isinstance(each, Prompt) for each in prompts):
        raise _refusal(name, f"{method}() gives no list of metis.Prompt")
    if not prompts:
        raise _refusal(name, f"{method}() gives no prompt")
    return prompts


def _called(name: str, what: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except MetisError:
        raise
    except Exception as error:
        raise MetisError(f"task = {name!r}: {what} raised {located(error)}") from error


def _refusal(name: str, flaw: str) -> MetisError:
    return MetisError(f"task = {name!r}: {flaw}; {CONTRACT}")
