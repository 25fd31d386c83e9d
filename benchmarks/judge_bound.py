"""The cost of the bound on the judge's gradient: an update with it, against one without.

    python benchmarks/judge_bound.py [--model smollm2-135m] [--prompts 16] [--group 8] [--length 16]
                                     [--replay 64] [--device auto]

Without a bound answers and judgments may share a pass through the network; with one each has its
own, so that each has its own norm. A batch of random answers, with a judgment of every prompt and
replayed ones, is trained on both ways in turn; the medians and their ratio are printed.
"""

import argparse
import statistics
from dataclasses import replace

import numpy as np

from metis import Batch, Group, Prompt
from metis.core import Continuation, Exemplar, Judgment, Trajectory
from metis.curricula.judges.prompt import turns
from metis.curricula.judges.scale import VARIANCE
from metis.engines.local.engine import LocalEngine
from metis.engines.local.settings import LocalSettings
from metis.tasks.arithmetic import Arithmetic, build

QUESTION = 24


def batch(chosen: argparse.Namespace, vocabulary: int) -> Batch:
    """Random answers, and judgments whose advantages add up to zero."""
    draw = np.random.default_rng(0)
    numbers = draw.integers(10, 1000, (chosen.prompts + chosen.replay, 2))
    prompts = [Prompt(f"sum:{i}", f"What is {a} + {b}?") for i, (a, b) in enumerate(numbers)]
    groups = []
    for prompt in prompts[: chosen.prompts]:
        mask = np.arange(QUESTION + chosen.length) >= QUESTION
        zeros = np.zeros(len(mask), dtype=np.float32)
        trajectories = tuple(
            Trajectory(draw.integers(0, vocabulary, len(mask)), mask, zeros, policy=1 << 30)
            for _ in range(chosen.group)
        )
        rewards = tuple(float(value) for value in draw.random(chosen.group))
        groups.append(Group(prompt, rewards, trajectories))
    examples = [Exemplar(Prompt("sum", "What is 12 + 7?"), v, v, 0) for v in (0.0, 0.109, 0.25)]
    chats = turns([prompt.text for prompt in prompts], examples)
    advantages = (draw.dirichlet(np.ones(11)) - 1 / 11).tolist()
    judgments = [
        Judgment(prompt, Continuation(chat, text, -3.0), advantage, 1.0, True, key)
        for i, (prompt, chat) in enumerate(zip(prompts, chats, strict=True))
        for key in ["" if i < chosen.prompts else "step 0"]
        for text, advantage in zip(VARIANCE.choices, advantages, strict=True)
    ]
    return Batch(groups, judgments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--length", type=int, default=16, help="tokens of an answer")
    parser.add_argument("--replay", type=int, default=64)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    settings = LocalSettings(model=chosen.model, device=chosen.device, learning_rate=1e-7)
    engine = LocalEngine(settings, build(Arithmetic(), 0))
    given = batch(chosen, engine.policy.base.config.get_text_config().vocab_size)
    times: dict[float, list[float]] = {0.0: [], 0.25: []}
    for _ in range(chosen.repeats + 1):
        for share, seconds in times.items():
            start = engine.clock()
            engine.update(replace(given, gradient_share=share))
            seconds.append(engine.clock() - start)
    together, bounded = (statistics.median(seconds[1:]) for seconds in times.values())
    print(
        f"device {engine.policy.device}, {chosen.prompts} prompts of {chosen.group} answers "
        f"of {chosen.length} tokens, {chosen.prompts + chosen.replay} judgments"
    )
    print(f"bounded {bounded:.3f} s, together {together:.3f} s: ratio {bounded / together:.2f}")


if __name__ == "__main__":
    main()
