"""The commands with a simulated policy that says something in every rollout and validation answer.

`python talking.py WORDS` runs them once. `python talking.py --kill STARTS BYTES WORDS` starts them
so often, and kills each start when it has written up to so many bytes of transcripts.
"""

import os
import random
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import metis.loop  # noqa: F401
from metis.cli import main
from metis.core import Group, Prompt, Transcript
from metis.engines import ENGINES
from metis.engines.simulated import SimulatedEngine, build_simulation
from metis.run.transcripts import segments


class TalkingEngine(SimulatedEngine):
    """Says words that depend on the prompt, the policy and the rollout alone."""

    def rollout(self, prompts: Sequence[Prompt], n: int) -> list[Group]:
        groups = super().rollout(prompts, n)
        return [with_words(group, f"{self.version}/{n}") for group in groups]

    def evaluate(self, *arguments, heard, **options):
        answers = super().evaluate(*arguments, **options)
        held_out = [Prompt(name, f"Held out: {name}") for name, _ in answers]
        heard([with_words(Group(prompt, (), (), 1), str(self.version)) for prompt in held_out])
        return answers


def with_words(group: Group, purpose: str) -> Group:
    draw = random.Random(f"{purpose}/{group.prompt.id}")
    rewards = [*group.rewards, *[None] * group.failed]
    said = tuple(
        Transcript(
            [{"role": "user", "content": group.prompt.text}],
            [{"role": "assistant", "content": " ".join(draw.choices(WORDS, k=40))}],
            reward,
            failure="ValueError" if reward is None else None,
        )
        for reward in rewards
    )
    return Group(
        group.prompt,
        group.rewards,
        group.trajectories,
        group.failed,
        group.failed_tokens,
        transcripts=said,
    )


WORDS = [f"word{number}" for number in range(500)]


def talk() -> None:
    """Let the simulated engine speak, in this process."""
    entry = ENGINES["simulated"]

    def build(settings, task, seed, data_seed, say):
        talking = build_simulation(settings, seed, data_seed)[0]
        talking.__class__ = TalkingEngine
        return talking

    ENGINES["simulated"] = entry._replace(build=build)


def size(folder: Path) -> int:
    """Bytes of the transcripts, while another process writes and deletes them."""
    total = 0
    for file in segments(folder):
        with suppress(FileNotFoundError):
            total += file.stat().st_size
    return total


def kill(starts: int, most: int, words: Sequence[str]) -> int:
    """The number of starts that were killed before they had trained to the end."""
    folder, draw, killed = Path(words[-1]), random.Random(0), 0
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    for _ in range(starts):
        child = os.fork()
        if not child:
            os._exit(main(list(words)))
        more, before = draw.randrange(most), size(folder)
        while not (ended := os.waitpid(child, os.WNOHANG)[0]):
            if size(folder) >= before + more:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                killed += 1
                break
            signal.sigtimedwait([signal.SIGCHLD], 0.001)
        if ended:
            break
    return killed


if __name__ == "__main__":
    talk()
    if sys.argv[1] == "--kill":
        print(kill(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
    else:
        sys.exit(main(sys.argv[1:]))
