"""A curriculum in tinker-cookbook: a dataset that proposes, groups of rollouts that are observed.

TINKER_API_KEY=... python examples/tinker_dataset.py Qwen/Qwen3-4B-Instruct-2507

tinker-cookbook 0.6.1. Its rollouts run with these classes in `make test-trainers`; its training,
which runs on the Tinker service, was not tried.
"""

import asyncio
import pickle
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import chz
from tinker_cookbook import model_info, renderers
from tinker_cookbook.rl.problem_env import ProblemEnv, ProblemGroupBuilder
from tinker_cookbook.rl.types import RLDataset, RLDatasetBuilder
from tinker_cookbook.tokenizer_utils import get_tokenizer

import metis

ROWS = [{"prompt": f"What is {a} * {b}?", "answer": a * b} for a in range(99) for b in range(99)]


class Product(ProblemEnv):
    def __init__(self, renderer, row):
        super().__init__(renderer, format_coef=0.0)  # rewards of 0 and 1
        self.row = row

    def get_question(self):
        return self.row["prompt"]

    def check_answer(self, sample_str):
        return sample_str.strip() == str(self.row["answer"])

    def check_format(self, sample_str):
        return True

    def get_reference_answer(self):
        return str(self.row["answer"])


@dataclass(frozen=True, kw_only=True)
class Observed(ProblemGroupBuilder):
    selector: metis.Selector
    pick: int

    async def compute_group_rewards(self, trajectory_group, env_group):
        rewards = [sum(step.reward for step in made.transitions) for made in trajectory_group]
        self.selector.observe(self.pick, rewards)
        return await super().compute_group_rewards(trajectory_group, env_group)

    async def cleanup(self):
        self.selector.drop(self.pick)  # of a group that failed; without effect on an observed one

    def __reduce__(self):
        raise TypeError("another process would observe in a copy: use no rollout executor")


@dataclass
class Chosen(RLDataset):
    selector: metis.Selector
    renderer: renderers.Renderer
    folder: Path  # the selector's state before each batch, for training that is resumed

    def get_batch(self, index):
        state = self.folder / f"selector-{index}.pickle"
        if index and not self.selector.metrics()["selector/begun"]:
            self.selector.load_state_dict(pickle.loads(state.read_bytes()))
            for pick in self.selector.outstanding:
                self.selector.drop(pick.id)
        state.write_bytes(pickle.dumps(self.selector.state_dict()))
        return [self.group(pick) for pick in self.selector.propose()]

    def group(self, pick):
        env = partial(Product, self.renderer, pick.prompt)
        return Observed(env, pick.n, selector=self.selector, pick=pick.id)

    def __len__(self):
        return self.selector.steps


@chz.chz
class Builder(RLDatasetBuilder):
    model: str
    folder: str

    async def __call__(self):
        renderer_name = model_info.get_recommended_renderer_name(self.model)
        renderer = renderers.get_renderer(renderer_name, get_tokenizer(self.model))
        selector = metis.Selector(ROWS, "mopps", batch=16, group=8, steps=100)
        return Chosen(selector, renderer, Path(self.folder)), None


if __name__ == "__main__":
    from tinker_cookbook.rl import train

    builder = Builder(model=sys.argv[1], folder="runs/tinker")
    config = train.Config(
        model_name=sys.argv[1],
        recipe_name="metis",
        dataset_builder=builder,
        learning_rate=4e-5,
        max_tokens=32,
        log_path="runs/tinker",
    )
    asyncio.run(train.main(config))
