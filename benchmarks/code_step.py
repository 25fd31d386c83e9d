"""The cost of scoring programs beside generation, in a step: the embedded problems, two cores.

    python benchmarks/code_step.py [--model smollm2-135m] [--steps 6] [--batch 2] [--group 8]

Every answer of the model is exchanged for a program: the reference of its problem, or one that
returns the same value always. Steps of uniform sampling are timed with their rewards computed in
the sandbox beside generation, and with the same rewards looked up. Both generate and train on the
same, from the same weights and seed, and take turns, step by step; the median of the ratios is
printed. The first step of each warms up.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from metis import Pool, Progress, drive
from metis.core import Prompt
from metis.curricula.uniform import Uniform
from metis.engines.local.engine import LocalEngine
from metis.engines.local.settings import LocalSettings
from metis.tasks.base import Reward, SingleTurn
from metis.tasks.code.pool import cores
from metis.tasks.code.problem import Problem
from metis.tasks.code.task import Code, CodeTask, reward
from metis.tasks.code.tests import Call

Scoring = Callable[[str, Problem], Reward]


class Exchanged(CodeTask):
    """The embedded problems; the length of an answer decides which program stands for it."""

    def __init__(self, scoring: Scoring) -> None:
        super().__init__(Code(), 0)
        self.scoring = scoring

    def episode(self, prompt: Prompt) -> SingleTurn:
        problem = self.problem(prompt.id)
        answers = (problem.reference, constant(problem))
        return SingleTurn(
            problem.chat(),
            lambda text: self.scoring(fenced(answers[len(text) % 2]), problem),
        )


def constant(problem: Problem) -> str:
    first = problem.tests[0]
    if isinstance(first, Call):
        return f"def {first.function}(*arguments):\n    return {first.expected!r}\n"
    return "print(0)\n"


def remembered() -> Scoring:
    """The same rewards, computed before."""
    task = CodeTask(Code(), 0)
    problems = [task.problem(prompt.id) for prompt in task.training()]
    pairs = [(fenced(code), p) for p in problems for code in (p.reference, constant(p))]
    with ThreadPoolExecutor(cores()) as threads:
        rewards = list(threads.map(lambda pair: reward(*pair), pairs))
    reward_of = {(text, p.id): r for (text, p), r in zip(pairs, rewards, strict=True)}
    return lambda text, problem: reward_of[text, problem.id]


def fenced(code: str) -> str:
    return f"```python\n{code}```"


class Arm:
    """An engine that takes steps of uniform sampling."""

    def __init__(self, scoring: Scoring, chosen: argparse.Namespace) -> None:
        settings = LocalSettings(model=chosen.model, device="cpu", max_tokens=chosen.tokens)
        self.engine = LocalEngine(settings, Exchanged(scoring), 0, say=lambda line: None)
        self.pool = Pool(self.engine.task.training(), self.engine.task.rewards)
        self.curriculum = Uniform(batch=chosen.batch, group=chosen.group)

    def seconds(self, step: int) -> float:
        start = time.perf_counter()
        progress = Progress(step, 0.0, self.engine.version)
        self.engine.update(drive(self.curriculum.step(self.pool, progress), self.engine))
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    for name, value in {"steps": 6, "batch": 2, "group": 8, "tokens": 64}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    chosen = parser.parse_args()
    free, scored = Arm(remembered(), chosen), Arm(reward, chosen)
    pairs = []
    for step in range(chosen.steps + 1):
        first, second = (free, scored) if step % 2 else (scored, free)
        taken = {first: first.seconds(step), second: second.seconds(step)}
        pairs.append((taken[free], taken[scored]))
    for arm in (free, scored):
        arm.engine.rewards.close()
    looked_up, run = (statistics.fmean(column) for column in zip(*pairs[1:], strict=True))
    ratio = statistics.median(after / before for before, after in pairs[1:])
    print(
        f"{chosen.batch * chosen.group} rollouts of up to {chosen.tokens} tokens, "
        f"{chosen.steps} steps: {looked_up:.2f} s a step with rewards looked up, {run:.2f} s with "
        f"programs run: median ratio {ratio:.3f}"
    )


if __name__ == "__main__":
    main()
