"""The example for tinker-cookbook, in its own rollouts: dataset, groups, renderer, strategies."""

import asyncio
import pickle

import pytest
from tinker_cookbook import renderers
from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.exceptions import AllTrajectoriesFailedError
from tinker_cookbook.rl.dataset_utils import EpochCycledRLDataset
from tinker_cookbook.rl.rollout_strategy import MinViableGroup
from tinker_cookbook.rl.rollouts import do_group_rollout

import metis
import tinker_dataset
from integration.conftest import byte_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = 6
TOKENIZER = byte_tokenizer()


class Policy(TokenCompleter):
    """Knows the answer every other time, of products by an odd number; may fail."""

    def __init__(self, fails=lambda count: False):
        self.count, self.fails = 0, fails

    async def __call__(self, model_input, stop, *, max_tokens=None):
        self.count += 1
        if self.fails(self.count):
            raise RuntimeError("no answer")
        asked = TOKENIZER.decode(model_input.to_ints()).split("What is ")[1].split("?")[0]
        a, b = map(int, asked.split(" * "))
        text = str(a * b) if a % 2 and self.count % 2 else "?"
        tokens = TOKENIZER.encode(f" {text}\n\nUser:", add_special_tokens=False)
        return TokensWithLogprobs(tokens, [0.0] * len(tokens))


def dataset(folder, curriculum="mopps"):
    selector = metis.Selector(tinker_dataset.ROWS, curriculum, batch=4, group=4, steps=STEPS)
    renderer = renderers.get_renderer("role_colon", TOKENIZER)
    return tinker_dataset.Chosen(selector, renderer, folder)


def trained(data, first=0, last=STEPS, policy=None, **settings):
    """The keys of each batch, and its groups, as tinker-cookbook's loop makes them."""
    policy = policy or Policy()

    async def loop():
        cycled = EpochCycledRLDataset(data, 1)
        for index in range(first, last):
            builders = cycled.get_batch(index)
            keys = [pick.key for pick in data.selector.outstanding]
            rollouts = [do_group_rollout(builder, policy, **settings) for builder in builders]
            yield keys, await asyncio.gather(*rollouts, return_exceptions=True)

    async def all_of_it():
        return [batch async for batch in loop()]

    return asyncio.run(all_of_it())


def test_every_group_is_observed_with_the_rewards_that_it_is_trained_on(tmp_path):
    data = dataset(tmp_path)
    assert len(data) == STEPS
    batches = trained(data)
    rewards = [group.get_total_rewards() for _, groups in batches for group in groups]
    assert {len(group) for group in rewards} == {4}
    assert {reward for group in rewards for reward in group} == {0.0, 1.0}
    metrics = data.selector.metrics()
    assert metrics["selector/ended"] == STEPS and not metrics["selector/failed"]
    _, last = batches[-1]
    mixed = [0 < sum(group.get_total_rewards()) < 4 for group in last]
    assert metrics["batch/informative"] == sum(mixed) / len(mixed)


def test_resumed_at_a_checkpoint_it_proposes_the_same(tmp_path):
    whole = [keys for keys, _ in trained(dataset(tmp_path))]
    again = [keys for keys, _ in trained(dataset(tmp_path), first=3)]
    assert again == whole[3:]


def test_resumed_in_asynchronous_training_what_was_lost_is_dropped(tmp_path):
    data = dataset(tmp_path)
    data.get_batch(0)
    data.get_batch(1)
    resumed = dataset(tmp_path)
    builders = resumed.get_batch(1)
    assert [pick.id for pick in resumed.selector.outstanding] == [made.pick for made in builders]
    assert resumed.selector.metrics()["selector/dropped"] == 4


def test_failed_rollouts_are_counted_and_groups_that_failed_are_dropped(tmp_path):
    data = dataset(tmp_path)
    strategy = MinViableGroup(min_successful=3, max_retries=0)
    some = Policy(lambda count: count % 4 == 0)
    [(_, groups)] = trained(data, last=1, policy=some, strategy=strategy)
    assert [len(group.get_total_rewards()) for group in groups] == [3] * 4
    metrics = data.selector.metrics()
    assert metrics["selector/failed"] == 4 and not metrics["selector/dropped"]
    every = Policy(lambda count: True)
    [(_, groups)] = trained(data, 1, 2, policy=every, strategy=strategy)
    assert {type(group) for group in groups} == {AllTrajectoriesFailedError}
    metrics = data.selector.metrics()
    assert metrics["selector/ended"] == 2 and metrics["selector/dropped"] == 4


def test_a_group_does_not_go_to_another_process(tmp_path):
    [builder, *_] = dataset(tmp_path).get_batch(0)
    with pytest.raises(TypeError, match="executor"):
        pickle.dumps(builder)


def test_the_builder_is_one_of_tinker_cookbook(tmp_path, monkeypatch):
    monkeypatch.setattr(tinker_dataset, "get_tokenizer", lambda model: TOKENIZER)
    builder = tinker_dataset.Builder(model="Qwen/Qwen3-4B-Instruct-2507", folder=str(tmp_path))
    data, tests = asyncio.run(builder())
    assert tests is None and len(data.get_batch(0)) == 16 and len(data) == 100
