"""Benchmarks as the test of a training run, in place of prompts held out from its task."""

from collections.abc import Sequence

from metis.core import Prompt
from metis.errors import MetisError
from metis.evals import benchmarks
from metis.pool import Rewards
from metis.tasks.base import Episode, SingleTurn, Task
from metis.tasks.math import MathTask, reward


class Validated:
    """A task that is tested on benchmarks. Their prompts are called NAME:ID, by which `benchmark`
    knows them; they are asked and scored as `metis eval` does it."""

    def __init__(self, task: Task, names: Sequence[str]) -> None:
        self.task = task
        settings = task.settings if isinstance(task, MathTask) else None
        self.verify = settings is not None and settings.verify
        sets = benchmarks.load(names, instruction=settings.instruction if settings else "")
        self._problems = {
            f"{each.name}:{problem.prompt.id.removeprefix(f'{each.name}:')}": problem
            for each in sets
            for problem in each.problems
        }
        trained = {prompt.id for prompt in task.training()}
        if both := sorted(trained & self._problems.keys()):
            raise MetisError(
                f"benchmarks = {list(names)}: {both[0]!r} is also trained on; train on another file"
            )

    @property
    def rewards(self) -> Rewards:
        return self.task.rewards

    def training(self) -> Sequence[Prompt]:
        return self.task.training()

    def heldout(self) -> Sequence[Prompt]:
        return [
            Prompt(name, problem.prompt.text, problem.prompt.category)
            for name, problem in self._problems.items()
        ]

    def episode(self, prompt: Prompt) -> Episode:
        problem = self._problems.get(prompt.id)
        if problem is None:
            return self.task.episode(prompt)
        reference = problem.answer
        return SingleTurn(problem.chat, lambda reply: reward(reply, reference, self.verify))


def benchmark(prompt: str) -> str:
    """The benchmark that a held-out prompt is of."""
    return prompt.partition(":")[0]
