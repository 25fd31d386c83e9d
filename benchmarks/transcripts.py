"""Size of a run's transcripts, the time to write them, and to read one and all.

python benchmarks/transcripts.py

200 steps of 16 prompts with 8 rollouts of 700 tokens. An answer has 540 words (1.3 tokens a word),
drawn from 30,000 made-up words with Zipf's frequencies, every eighth followed by a number or a
formula; answers to the same prompt share nothing, which compresses worse than real ones do.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from metis.core import Batch, Chat, Group, Prompt, Rollout, Trajectory, Transcript
from metis.run.folder import RunFolder
from metis.run.recording import Recorder
from metis.run.transcripts import members, read, segments

STEPS, PROMPTS, GROUP, TOKENS, WORDS = 200, 16, 8, 700, 540
VOCABULARY = 30_000
STEP = 10.0
"""Seconds of a step that writing is compared with."""
MOST_BYTES, MOST_SHARE = 150e6, 0.01


NOTHING = Trajectory(np.zeros(1, np.int64), np.ones(1, bool), np.zeros(1, np.float32), 0)


class Writer:
    """Makes up answers."""

    def __init__(self) -> None:
        draw = random.Random(0)
        letters = "etaoinshrdlucmfwypvbgkjqxz"
        weights = [1 / (place + 3) for place in range(len(letters))]
        self.words = [
            "".join(
                draw.choices(letters, weights, k=2 + min(8, int(rank**0.2 * draw.uniform(0.5, 2))))
            )
            for rank in range(1, VOCABULARY + 1)
        ]
        self.random = np.random.default_rng(0)
        frequencies = 1 / np.arange(1, VOCABULARY + 1)
        self.steps = np.cumsum(frequencies / frequencies.sum())

    def text(self, words: int) -> str:
        places = np.searchsorted(self.steps, self.random.random(words)).tolist()
        numbers = self.random.integers(1000, size=words // 8 + 1).tolist()
        said = [self.words[min(place, VOCABULARY - 1)] for place in places]
        for number, place in zip(numbers, range(0, words, 8), strict=False):
            said[place] += f" ${number} + x_{number % 9}$." if number % 3 else f" {number},"
        return " ".join(said)

    def group(self, name: str) -> Group:
        prompt = Prompt(name, self.text(60), "category")
        asked: Chat = [{"role": "user", "content": prompt.text}]
        rewards = tuple(float(value) for value in self.random.integers(2, size=GROUP))
        said = tuple(
            Transcript(
                asked, [{"role": "assistant", "content": self.text(WORDS)}], reward, {}, TOKENS
            )
            for reward in rewards
        )
        return Group(prompt, rewards, (NOTHING,) * GROUP, transcripts=said)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=STEPS)
    steps = parser.parse_args(arguments).steps
    writer, seconds, raw = Writer(), [], 0
    with tempfile.TemporaryDirectory() as folder, RunFolder.open(Path(folder) / "run", {}) as run:
        recorder = Recorder(run)
        for step in range(1, steps + 1):
            groups = [writer.group(f"{step}:{place}") for place in range(PROMPTS)]
            raw += sum(
                len(str(t.said[0]["content"])) for group in groups for t in group.transcripts
            )
            heard = [(Rollout([group.prompt for group in groups], GROUP), groups)]
            start = time.process_time()
            recorder.step(step, heard, Batch(groups))
            seconds.append(time.process_time() - start)
        size = sum(file.stat().st_size for file in segments(run.path))
        report(steps, raw, size, seconds)
        read_back(run.path)


def report(steps: int, raw: int, size: int, seconds: Sequence[float]) -> None:
    rollouts, median = steps * PROMPTS * GROUP, statistics.median(seconds)
    whole, share = size * STEPS / steps, median / STEP
    print(f"{rollouts:,} rollouts of {raw / rollouts:,.0f} characters: {size / 1e6:.1f} MB")
    print(f"{STEPS} steps: {whole / 1e6:.1f} MB")
    print(f"writing: {1e3 * median:.1f} ms of CPU per step, {share:.2%} of {STEP:.0f} s")
    if whole > MOST_BYTES or share > MOST_SHARE:
        raise SystemExit(f"more than {MOST_BYTES / 1e6:.0f} MB, or {MOST_SHARE:.0%} of a step")


def read_back(run: Path) -> None:
    start = time.process_time()
    found = [member.place for member in members(run)]
    print(f"reading all: {time.process_time() - start:.2f} s of CPU")
    start, chosen = time.process_time(), random.Random(0).sample(found, min(200, len(found)))
    for place in chosen:
        read(run, place)
    print(f"reading one group: {1e3 * (time.process_time() - start) / len(chosen):.2f} ms of CPU")


if __name__ == "__main__":
    main()
