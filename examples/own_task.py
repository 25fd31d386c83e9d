"""A task of one's own, in turns: guess a number in at most five tries.

metis train task=examples/own_task.py:GuessingGames task.tests=10 steps=3
"""

import random
from dataclasses import dataclass

import metis
from metis import Prompt


class GuessingGame:
    def __init__(self, secret):
        self.secret, self.tries = secret, 0
        self.chat = [{"role": "user", "content": "Guess a number from 1 to 100."}]

    def reply(self, text):  # the environment's turn, runs beside others'; None ends the episode
        self.tries, self.won = self.tries + 1, str(self.secret) in text
        if self.won or self.tries == 5:
            return None
        return [{"role": "user", "content": "No. Again."}]

    def reward(self):  # may be async; runs beside generation
        return self.won / self.tries


@dataclass
class GuessingGames:
    tests: int = 20  # init fields are settings: task.tests=10
    seed: int = 0  # the run's, unless task.seed is set
    rewards = "continuous"

    def __post_init__(self):
        secrets = random.Random(self.seed).sample(range(1, 101), 100)
        self.games = [Prompt(f"guess:{n}", "Guess a number from 1 to 100.") for n in secrets]

    def training(self):
        return self.games[self.tests :]

    def heldout(self):
        return self.games[: self.tests]

    def episode(self, prompt):
        return GuessingGame(int(prompt.id.removeprefix("guess:")))


if __name__ == "__main__":
    small = {"steps": 2, "batch": 4, "group": 4, "engine": {"max_tokens": 8}}
    metis.train(task=GuessingGames(tests=4), curriculum="uniform", out="runs/own-task", **small)
