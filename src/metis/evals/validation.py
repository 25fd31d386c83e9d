"""Benchmarks as the test of a training run, in place of prompts held out from its task."""

from collections.abc import Iterator, Sequence

from metis.core import Prompt
from metis.evals import benchmarks
from metis.pool import Rewards
from metis.prepare import wording
from metis.tasks.answers import score
from metis.tasks.base import Episode, SingleTurn, Task
from metis.tasks.math import MathTask, Problem


class Validated:
    """A task that is tested on benchmarks. Their prompts are called NAME:ID, by which `benchmark`
    knows them; they are asked and scored as `metis eval` does it.

    Problems that are also trained on are left in, as the paper does, and counted in `notices`.
    """

    def __init__(self, task: Task, names: Sequence[str]) -> None:
        self.task = task
        math = task if isinstance(task, MathTask) else None
        self.verifier = math.verifier if math else None
        sets = benchmarks.load(names, instruction=math.settings.instruction if math else "")
        training = task.training()
        trained = {prompt.id for prompt in training}
        self._problems = _named(sets, "")
        if trained & self._problems.keys():  # a file that is trained on has the same name
            self._problems = _named(sets, "test/")
        self.notices = list(_notices(sets, training))

    @property
    def rewards(self) -> Rewards:
        return self.task.rewards

    def training(self) -> Sequence[Prompt]:
        return self.task.training()

    def heldout(self) -> Sequence[Prompt]:
        return [problem.prompt for problem in self._problems.values()]

    def episode(self, prompt: Prompt) -> Episode:
        problem = self._problems.get(prompt.id)
        if problem is None:
            return self.task.episode(prompt)
        reference = problem.answer
        return SingleTurn(problem.chat, lambda reply: score(reply, reference, self.verifier))


def benchmark(prompt: str) -> str:
    """The benchmark that a held-out prompt is of."""
    return prompt.partition(":")[0]


def _named(sets: Sequence[benchmarks.ProblemSet], mark: str) -> dict[str, Problem]:
    named = {}
    for each in sets:
        for problem in each.problems:
            own = problem.prompt.id.removeprefix(f"{each.name}:")
            found = problem.called(f"{each.name}:{mark}{own}")
            named[found.prompt.id] = found
    return named


def _notices(sets: Sequence[benchmarks.ProblemSet], training: Sequence[Prompt]) -> Iterator[str]:
    trained = {wording.key(prompt.text) for prompt in training}
    for each in sets:
        both = sum(wording.key(problem.prompt.text) in trained for problem in each.problems)
        if both:
            yield (
                f"benchmark {each.name}: {both:,} of its {len(each.problems):,} problems are also "
                "trained on, so that its accuracy is too good"
            )
