"""A set of prompts to answer, and the task that asks and scores them."""

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from metis.core import Prompt
from metis.core.importing import source_digest
from metis.tasks.base import Episode, Task
from metis.tasks.code.task import CodeProblems
from metis.tasks.file import FileTask
from metis.tasks.verifiers import VerifiersTask


@dataclass(frozen=True)
class PromptSet:
    """Prompts of a benchmark, a file or a run's own test; `task` makes an episode of each.

    title     what tables call it
    scorer    how answers are scored, in words
    beside    the score beside the one that counts, if any: a name of `scoring.TITLES`
    own       the test of a training run, answered in its order and batches
    source    a digest of the code of a task or reward that is not METIS's
    reported  what the task's rewards report that is a score beside them
    remark    what a reader has to know of it, such as problems that are left out
    """

    name: str
    title: str
    task: Task
    prompts: tuple[Prompt, ...]
    scorer: str
    beside: str = ""
    own: bool = False
    source: str = ""
    reported: tuple[str, ...] = ()
    remark: str = ""

    @cached_property
    def openings(self) -> Sequence[Episode]:
        """A fresh episode of every prompt, for its chat and its reference."""
        return [self.task.episode(prompt) for prompt in self.prompts]

    @property
    def instruction(self) -> str | None:
        """The instruction that ends every prompt; None if they differ."""
        said = set()
        for prompt, episode in zip(self.prompts, self.openings, strict=True):
            asked = episode.chat[-1]["content"]
            begins = bool(prompt.text) and asked.startswith(prompt.text)
            said.add(asked.removeprefix(prompt.text).strip() if begins else None)
        return said.pop() if len(said) == 1 else None

    @property
    def digest(self) -> str:
        """A hash of questions and references."""
        asked = [
            [prompt.id, list(episode.chat), reference(episode)]
            for prompt, episode in zip(self.prompts, self.openings, strict=True)
        ]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]

    @property
    def described(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "problems": len(self.prompts),
            "digest": self.digest,
            "instruction": self.instruction,
            "scorer": self.scorer,
            **({"source": source} if (source := self._tests or self.source) else {}),
            **({"remark": self.remark} if self.remark else {}),
        }

    @property
    def _tests(self) -> str:
        """A digest of the tests of programs."""
        return self.task.digest() if isinstance(self.task, CodeProblems) else ""

    def sample(self, count: int, seed: int) -> "PromptSet":
        """`count` of the prompts, drawn by the seed, in their order; 0 or too many is all."""
        if not 0 < count < len(self.prompts):
            return self
        places = sorted(random.Random(seed).sample(range(len(self.prompts)), count))
        return replace(self, prompts=tuple(self.prompts[i] for i in places))


def reference(episode: Episode) -> str:
    """The reference answer of an episode that names one."""
    return str(getattr(episode, "reference", ""))


def scorer(task: Task) -> str:
    """The scorer of a task: in its own words, or the name of its class."""
    return str(getattr(task, "scorer", _named(task)))


def source(task: Task) -> str:
    """A digest of the code that scores, where it is not METIS's."""
    if isinstance(task, VerifiersTask):
        return task.digest
    reward = task.reward if isinstance(task, FileTask) else None
    if reward is not None:
        return source_digest(reward.name)
    name = _named(task)
    return "" if name.startswith("metis.") else source_digest(name)


def _named(task: Task) -> str:
    kind = type(task)
    return f"{kind.__module__}:{kind.__qualname__}"
