"""A dialogue of the benchmark: the user's turns, the APIs' initial state, and the ground truth.

Prepared files have it as one JSON object.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from metis.core import Chat, Prompt
from metis.errors import MetisError
from metis.tasks.bfcl import calls, document, wording
from metis.tasks.bfcl.calls import ApiCall, RefusedCall
from metis.tasks.bfcl.document import Malformed
from metis.tasks.bfcl.package import Api, apis
from metis.tasks.bfcl.world import World

LONG = ("long_context", "composite")
"""Categories whose scenarios are extended with distractors."""


@dataclass(frozen=True)
class Dialogue:
    """A dialogue with one user.

    questions  the user's turns; an empty one adds functions that were withheld
    truth      the calls of each turn
    scenario   the initial state of each API
    handed     functions by the turn in which they are added
    """

    id: str
    category: str
    names: tuple[str, ...]
    questions: tuple[str, ...]
    truth: tuple[tuple[str, ...], ...]
    scenario: Mapping[str, Any]
    handed: Mapping[int, tuple[str, ...]]

    @classmethod
    def of(cls, entry: Mapping[str, Any], truth: list[list[str]], category: str) -> "Dialogue":
        """An entry of the package, with its ground truth."""
        return cls(
            id=entry["id"],
            category=category,
            names=tuple(entry["involved_classes"]),
            questions=tuple(
                "\n".join(said["content"] for said in turn) for turn in entry["question"]
            ),
            truth=tuple(tuple(turn) for turn in truth),
            scenario=entry["initial_config"],
            handed={
                int(turn): tuple(names) for turn, names in entry.get("missed_function", {}).items()
            },
        )

    @classmethod
    def read(cls, text: str) -> "Dialogue":
        """The dialogue that `written` wrote; of another text, `Malformed` says what is wrong."""
        parts = document.read_documents(text)
        dialogue = cls(
            id=parts["id"],
            category=parts["category"],
            names=tuple(parts["apis"]),
            questions=tuple(parts["questions"]),
            truth=tuple(tuple(turn) for turn in parts["truth"]),
            scenario=parts["scenario"],
            handed={int(turn): tuple(names) for turn, names in parts["handed"].items()},
        )
        dialogue._try()
        return dialogue

    def _try(self) -> None:
        """Refuse a scenario that an API does not load."""
        try:
            self.world()
        except MetisError:
            raise
        except Exception as error:
            raise Malformed(f"scenario: {type(error).__name__} when it is loaded") from None

    @property
    def written(self) -> str:
        """All of it as JSON."""
        return json.dumps(
            {
                "id": self.id,
                "category": self.category,
                "apis": self.names,
                "questions": self.questions,
                "truth": self.truth,
                "scenario": self.scenario,
                "handed": self.handed,
            }
        )

    @property
    def number(self) -> str:
        """The number shared by the variants of a dialogue in all categories."""
        return self.id.rpartition("_")[2]

    @property
    def apis(self) -> list[Api]:
        by_name = apis()
        return [by_name[name] for name in self.names]

    @cached_property
    def solution(self) -> list[list[ApiCall | RefusedCall]]:
        """The ground truth as calls."""
        return [[calls.parse(call) for call in turn] for turn in self.truth]

    @property
    def prompt(self) -> Prompt:
        return Prompt(self.id, wording.judged(self.questions[0], self.apis), self.category)

    @property
    def chat(self) -> Chat:
        """The chat that the policy answers first."""
        return [
            {"role": "system", "content": wording.system(self.apis, self.withheld(0))},
            {"role": "user", "content": self.said(0)},
        ]

    def withheld(self, turn: int) -> frozenset[str]:
        """The functions that are not offered yet, but for those that a ground truth before calls:
        one official dialogue withholds such a function."""
        return frozenset(
            name
            for since, names in self.handed.items()
            if since > turn
            for name in names
            if name not in self._called_before(since)
        )

    def _called_before(self, turn: int) -> set[str]:
        return {
            call.name
            for before in self.solution[:turn]
            for call in before
            if isinstance(call, ApiCall)
        }

    def world(self) -> World:
        """A fresh world."""
        return World(self.apis, self.scenario, self.category in LONG)

    def said(self, turn: int) -> str:
        """The user's message of a turn."""
        if self.questions[turn]:
            return self.questions[turn]
        functions = [each for api in self.apis for each in api.functions.values()]
        handed = self.handed.get(turn, ())
        return wording.added([each for each in functions if each.name in handed])
