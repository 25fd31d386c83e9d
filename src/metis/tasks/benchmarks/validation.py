"""Benchmarks as the test of a training run, in place of prompts held out from its task."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from metis.core import Prompt
from metis.core.pool import Rewards
from metis.data import wording
from metis.tasks.base import Episode, Task, scorers
from metis.tasks.benchmarks import catalogue
from metis.tasks.benchmarks.catalogue import Manner
from metis.tasks.benchmarks.sets import PromptSet


class Validated:
    """A task that is tested on benchmarks. Their prompts are called NAME:ID, by which `benchmark`
    knows them; they are asked and scored as `metis eval` does it.

    `limit` is the number of problems of each, drawn as `metis eval --limit` draws them; 0 is all.
    Problems that are also trained on are left in, as the paper does, and counted in `notices`.
    """

    def __init__(self, task: Task, names: Sequence[str], limit: int = 0) -> None:
        self.task = task
        settings, verifier = getattr(task, "settings", None), getattr(task, "verifier", None)
        loaded = catalogue.load(names, manner=Manner.of(settings, verifier))
        sets = [each.sample(limit, seed=0) for each in loaded]
        training = task.training()
        trained = {prompt.id for prompt in training}
        self._named = _named(sets, "")
        if trained & self._named.keys():  # a file that is trained on has the same name
            self._named = _named(sets, "test/")
        self.notices = list(_notices(sets, training))

    @property
    def rewards(self) -> Rewards:
        return self.task.rewards

    def training(self) -> Sequence[Prompt]:
        return self.task.training()

    def heldout(self) -> Sequence[Prompt]:
        return [replace(prompt, id=name) for name, (_, prompt) in self._named.items()]

    def episode(self, prompt: Prompt) -> Episode:
        if prompt.id not in self._named:
            return self.task.episode(prompt)
        asked, own = self._named[prompt.id]
        return asked.task.episode(own)

    def scorers(self) -> int | None:
        """The fewest rewards at a time that its task or a benchmark allows."""
        tasks = {id(task): task for task in (self.task, *(s.task for s, _ in self._named.values()))}
        return min((most for task in tasks.values() if (most := scorers(task))), default=None)

    def sets(self) -> list[PromptSet]:
        """The benchmarks, each with its prompts as they are called here."""
        parts: dict[str, tuple[PromptSet, list[Prompt]]] = {}
        for name, (asked, prompt) in self._named.items():
            parts.setdefault(asked.name, (asked, []))[1].append(replace(prompt, id=name))
        return [
            replace(asked, task=self, prompts=tuple(prompts), own=True)
            for asked, prompts in parts.values()
        ]


def benchmark(prompt: str) -> str:
    """The benchmark that a held-out prompt is of."""
    return prompt.partition(":")[0]


def _named(sets: Sequence[PromptSet], mark: str) -> dict[str, tuple[PromptSet, Prompt]]:
    """The prompts of all sets, each with its set, by the names that they have in a run."""
    named = {}
    for each in sets:
        for prompt in each.prompts:
            own = prompt.id.removeprefix(f"{each.name}:")
            named[f"{each.name}:{mark}{own}"] = (each, prompt)
    return named


def _notices(sets: Sequence[PromptSet], training: Sequence[Prompt]) -> Iterator[str]:
    trained = {wording.key(prompt.text) for prompt in training}
    for each in sets:
        both = sum(wording.key(prompt.text) in trained for prompt in each.prompts)
        if both:
            yield (
                f"benchmark {each.name}: {both:,} of its {len(each.prompts):,} problems are also "
                "trained on, so that its accuracy is too good"
            )
