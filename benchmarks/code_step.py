"""The cost of scoring programs beside generation, in a step: the embedded problems, two cores.

    python benchmarks/code_step.py [--model smollm2-135m] [--steps 3] [--batch 4] [--group 8]

Every answer of the model is exchanged for a program: the reference of its problem, or one that
returns the same value always. Steps of uniform selection are timed with their rewards computed in
the sandbox beside generation, and with the same rewards looked up. Both generate and train on the
same, from the same weights and seed, and take turns; the ratio is that of the sums over steps.
"""

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from metis import Pool, Progress, drive
from metis.core import Prompt
from metis.curricula.uniform import Uniform
from metis.engines.local.engine import LocalEngine
from metis.engines.local.settings import Local
from metis.tasks.base import Reward, SingleTurn
from metis.tasks.code.pool import cores
from metis.tasks.code.problem import Problem
from metis.tasks.code.scoring import reward
from metis.tasks.code.task import Code, CodeTask
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


def seconds(scoring: Scoring, chosen: argparse.Namespace) -> list[float]:
    """The seconds of every step of a fresh engine, after one that warms it up."""
    settings = Local(model=chosen.model, device="cpu", max_tokens=chosen.tokens)
    engine = LocalEngine(settings, Exchanged(scoring), 0, say=lambda line: None)
    pool = Pool(engine.task.training(), engine.task.rewards)
    curriculum, taken = Uniform(batch=chosen.batch, group=chosen.group), []
    for step in range(chosen.steps + 1):
        start = time.perf_counter()
        batch = drive(curriculum.step(pool, Progress(step, 0.0, engine.version)), engine)
        engine.update(batch)
        taken.append(time.perf_counter() - start)
    engine.rewards.close()
    return taken[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    for name, value in {"steps": 3, "rounds": 2, "batch": 4, "group": 8, "tokens": 128}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    chosen = parser.parse_args()
    free, scored = [], []
    lookup = remembered()
    for _ in range(chosen.rounds):
        free += seconds(lookup, chosen)
        scored += seconds(reward, chosen)
    ratio = sum(scored) / sum(free)
    rollouts = chosen.batch * chosen.group
    print(
        f"{rollouts} rollouts of up to {chosen.tokens} tokens: {sum(free) / len(free):.2f} s a "
        f"step with rewards looked up, {sum(scored) / len(scored):.2f} s with programs run: "
        f"{ratio:.3f}"
    )


if __name__ == "__main__":
    main()
