"""Reward functions of one's own, with our signature, TRL's or verl's.

The names of its parameters say which one a function has. It may be a coroutine.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

from metis.core import Chat
from metis.core.importing import import_object
from metis.errors import BadReward, MetisError
from metis.tasks.base import Reward
from metis.tasks.outcome import SCORE

KEY = "task.reward"
NO_COLUMNS = ("prompt", "completion", "completion_ids")
"""Fields that TRL does not hand to a reward function."""


@dataclass(frozen=True)
class Asked:
    """A problem of a file: the chat that asks it, its row, and its reference answer.

    `truth` is the answer as the row has it, `reference` the same as text.
    """

    chat: Chat
    row: Mapping[str, Any]
    truth: Any = ""
    reference: str = ""
    source: str = ""


def _ours(reply: str, asked: Asked) -> dict[str, Any]:
    return {"reply": reply, "reference": asked.truth, "row": dict(asked.row)}


def _trl(reply: str, asked: Asked) -> dict[str, Any]:
    """Lists of one. A completion is a list of messages, as TRL has it for chats."""
    return {
        **{name: [value] for name, value in asked.row.items() if name not in NO_COLUMNS},
        "prompts": [[dict(message) for message in asked.chat]],
        "completions": [[{"role": "assistant", "content": reply}]],
        "log_metric": None,
    }


def _verl(reply: str, asked: Asked) -> dict[str, Any]:
    about = asked.row.get("extra_info", asked.row)
    return {
        "data_source": asked.row.get("data_source", asked.source),
        "solution_str": reply,
        "ground_truth": asked.truth,
        "extra_info": dict(about) if isinstance(about, Mapping) else about,
    }


SIGNATURES: dict[str, Callable[[str, Asked], dict[str, Any]]] = {
    "reply": _ours,
    "completions": _trl,
    "solution_str": _verl,
}
"""By the parameter that tells a signature: what a function is given."""
WRITE = (
    "score(reply, reference, row), score(completions, **columns) as for TRL, or "
    "score(data_source, solution_str, ground_truth, extra_info) as for verl"
)


class OwnReward:
    """A reward function by its name, called as its signature wants it."""

    def __init__(self, name: str) -> None:
        self.name, self.function = name, import_object(KEY, name)
        if not callable(self.function):
            raise MetisError(f"{KEY} = {name!r}: it is {self.function!r}, not a function")
        try:
            parameters = inspect.signature(self.function).parameters
        except ValueError:
            raise MetisError(
                f"{KEY} = {name!r}: its parameters are not known, as of some functions in C; "
                f"write {WRITE}"
            ) from None
        self.parameters = {
            key: item for key, item in parameters.items() if item.kind not in _COLLECTING
        }
        self.collects = any(item.kind is Parameter.VAR_KEYWORD for item in parameters.values())
        mark = next((mark for mark in SIGNATURES if mark in self.parameters), None)
        if mark is None:
            raise MetisError(
                f"{KEY} = {name!r}: its parameters are ({', '.join(parameters)}); write {WRITE}"
            )
        self.mark = mark

    @property
    def needs_reference(self) -> bool:
        return not {"reference", "ground_truth"}.isdisjoint(self.parameters)

    def check(self, asked: Asked) -> None:
        """Refuse a function with parameters that a problem cannot fill."""
        given = SIGNATURES[self.mark]("", asked)
        for name, item in self.parameters.items():
            by_name = item.kind is not Parameter.POSITIONAL_ONLY
            if item.default is Parameter.empty and not (by_name and name in given):
                raise MetisError(
                    f"{KEY} = {self.name!r}: nothing is given to its parameter {name!r}; there are "
                    f"{', '.join(given)}"
                )

    def __call__(self, reply: str, asked: Asked) -> Reward | Awaitable[Reward]:
        given = SIGNATURES[self.mark](reply, asked)
        if self.mark != "completions":
            returned: Reward | Awaitable[Reward] = self._call(given)
            return returned
        logged: dict[str, Any] = {}
        given["log_metric"] = logged.__setitem__
        if self._reads_text:
            given["completions"] = [reply]
        rewards = self._call(given)
        if inspect.isawaitable(rewards):
            return self._later(rewards, logged)
        return self._only(rewards, logged)

    def _call(self, given: Mapping[str, Any]) -> Any:
        """Call the function with those of its parameters that are given."""
        wanted = given if self.collects else self.parameters.keys() & given.keys()
        return self.function(**{name: given[name] for name in wanted})

    @property
    def _reads_text(self) -> bool:
        """True where completions are annotated as text: `completions: list[str]`."""
        return str(self.parameters["completions"].annotation).endswith("[str]")

    async def _later(self, rewards: Awaitable[Any], logged: Mapping[str, Any]) -> Reward:
        return self._only(await rewards, logged)

    def _only(self, rewards: Any, logged: Mapping[str, Any]) -> Reward:
        """The one value of TRL's list of rewards, with what was logged beside it."""
        values = rewards.tolist() if hasattr(rewards, "tolist") else rewards
        if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != 1:
            raise BadReward.of(self.name, rewards, "not a list of one number, for one completion")
        return {**logged, SCORE: values[0]}


_COLLECTING = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
