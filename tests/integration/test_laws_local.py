"""Laws that every curriculum obeys on a real model too: a tiny random one, on both kinds of reward.

Each trains for a few steps, is saved on the way, and goes on in a fresh engine to the same batches.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

pytest.importorskip("torch")

import torch

from laws import FLOOR, GUESTS, MEASURED, check, check_explained, given, make, run, summarise
from metis import Pool, Prompt
from metis.core import state as states
from metis.curricula import CURRICULA
from metis.engines.local.engine import LocalEngine
from metis.tasks.base import SingleTurn

BATCH, PROMPTS, STEPS, CUT = 3, 12, 5, 2
CASES = [
    *((name, "") for name in [*CURRICULA, *GUESTS]),
    ("metis", "readout"),
    ("pcl", "policy"),
    ("sec", MEASURED),
    ("adarft", MEASURED),
    ("knapsack", "direct"),
    ("metis", "filtered"),
    ("dapo", FLOOR),
    ("metis", FLOOR),
]


class Letters:
    """Rewards that a random model earns now and then: whether, or how much, an answer is long."""

    def __init__(self, rewards):
        self.rewards = rewards

    def training(self) -> Sequence[Prompt]:
        return [
            Prompt(f"letters:{i}", f"Write {i} letters.", f"kind-{i % 2}", difficulty=i / PROMPTS)
            for i in range(PROMPTS)
        ]

    def heldout(self) -> Sequence[Prompt]:
        return []

    def episode(self, prompt: Prompt) -> SingleTurn:
        chat = [{"role": "user", "content": prompt.text}]
        return SingleTurn(chat, self.score)

    def score(self, text: str) -> float:
        size = sum(map(ord, text))
        return float(size % 2) if self.rewards == "binary" else (size % 5) / 4


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tiny matrices gain nothing from more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def world(settings):
    """Makes an engine and its pool, from scratch every time."""
    engines, small = [], replace(settings, max_tokens=4)

    def make_world(variant, rewards, seed=0):
        task = Letters(rewards)
        engines.append(LocalEngine(small, task, seed))
        return engines[-1], Pool(given(task.training(), variant), rewards)

    yield make_world
    for engine in engines:
        engine.rewards.close()


@pytest.mark.parametrize("rewards", ["binary", "continuous"])
@pytest.mark.parametrize(
    ("name", "variant"), [pytest.param(*it, id="-".join(filter(None, it))) for it in CASES]
)
def test_it_trains_a_model_and_resumes_to_the_same_batches(name, variant, rewards, world, tmp_path):
    engine, pool = world(variant, rewards)
    curriculum = make(name, variant, BATCH)
    batches = run(curriculum, engine, pool, CUT, total=STEPS)
    states.save_state(tmp_path / "state", {"c": curriculum.state_dict(), "p": pool.state_dict()})
    engine.save(tmp_path)
    batches += run(curriculum, engine, pool, STEPS - CUT, start=CUT, total=STEPS)
    assert engine.version > 0
    for batch in batches:
        check(batch, pool, BATCH)
        check_explained(name, batch)

    engine, pool = world(variant, rewards, seed=1)
    curriculum = make(name, variant, BATCH)
    saved = states.load_state(tmp_path / "state")
    curriculum.load_state_dict(saved["c"])
    pool.load_state_dict(saved["p"])
    engine.load(tmp_path)
    resumed = run(curriculum, engine, pool, STEPS - CUT, start=CUT, total=STEPS)
    assert summarise(resumed) == summarise(batches[CUT:])
