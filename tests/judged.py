"""Rankings by a scripted model: prompts that say how many of 8 rollouts pass, in their text."""

import json
import re
from contextlib import contextmanager

import numpy as np
import pytest

from metis.cli import main
from metis.core import Engine
from metis.rankings import command
from scripted import passes


def rows(count, words=""):
    """Prompt i passes i % 9 of 8 times."""
    return [
        {"id": f"p{i}", "prompt": f"No. {i} of level {i % 9}. {words}".strip(), "answer": i}
        for i in range(count)
    ]


def written(path, given):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in given))
    return path


class Scripted(Engine):
    """Its states tell the level; it is killed when it is asked for the `killed`th time."""

    def __init__(self, killed=0):
        self.killed, self.asked, self.notices = killed, [], []

    @property
    def rows(self):
        return 64

    def answer(self, request):
        if len(self.asked) + 1 == self.killed:
            raise KeyboardInterrupt
        self.asked.append(request)
        return super().answer(request)

    def rollout(self, prompts, n):
        return [passes(prompt, level(prompt.text), n) for prompt in prompts]

    def embed(self, prompts, depths):
        return [self.state(chat[-1]["content"]) for chat in prompts]

    def state(self, text):
        noise = np.random.default_rng(len(text)).normal(size=4)
        return np.array([level(text), *noise], dtype=np.float32)

    def reseed(self, seed):
        pass

    def close(self):
        pass


def level(text):
    return int(re.search(r"level (\d)", text)[1])


@contextmanager
def asking(engine):
    """`metis judge` asks this engine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "_engine", lambda *_: engine)
        yield engine


def judge(path, out, *words, engine=None):
    """The exit code of the command."""
    with asking(engine or Scripted()):
        return main(["judge", "scripted", str(path), *words, "--out", str(out)])
