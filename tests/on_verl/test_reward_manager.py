"""verl's rewards by our manager: one that raises is a failed rollout, not a lost one."""

import asyncio
import math

import numpy as np
import pytest
import torch
from verl import DataProto
from verl.trainer.ppo.reward import resolve_reward_manager_cls

from composing import composed
from integration.conftest import byte_tokenizer
from metis.engines.verl.reward_manager import RewardManager, register_manager
from metis.engines.verl.servers.said import FAILURE


def answer(text):
    """An answer as verl's agent loops hand it to a reward worker."""
    tokens = torch.tensor([byte_tokenizer()(text)["input_ids"]])
    columns = {"responses": tokens, "attention_mask": torch.ones_like(tokens)}
    about = {
        "data_source": np.array(["sums"]),
        "reward_model": np.array([{"ground_truth": "4"}]),
        "extra_info": np.array([{"index": 0}]),
    }
    return DataProto.from_dict(tensors=columns, non_tensors=about)


def scored(function, text="four"):
    async def run():  # the manager takes the loop that it is made in
        manager = RewardManager(composed([]), byte_tokenizer(), function)
        return await manager.run_single(answer(text))

    return asyncio.run(run())


def wrong(solution_str, **_):
    raise ValueError(f"no number in {solution_str}")


async def later(solution_str, **_):
    raise ValueError(f"no number in {solution_str}")


@pytest.mark.parametrize("function", [wrong, later])
def test_a_reward_that_raises_is_not_a_number_with_its_reason(function):
    found = scored(function)
    assert math.isnan(found["reward_score"])
    reason = found["reward_extra_info"][FAILURE]
    assert reason.startswith("ValueError: no number in four (")
    assert "test_reward_manager.py, line" in reason and f"in {function.__name__})" in reason


@pytest.mark.parametrize("value", ["a text", None, {"acc": 1.0}])
def test_a_reward_that_is_no_number_failed(value):
    found = scored(lambda **_: value)
    assert math.isnan(found["reward_score"]) and found["reward_extra_info"][FAILURE]


def test_any_other_reward_is_as_verl_has_it():
    found = scored(lambda **_: {"score": 0.5, "acc": 1.0, "pred": "4"})
    assert found["reward_score"] == 0.5
    assert found["reward_extra_info"] == {"score": 0.5, "acc": 1.0, "pred": "4"}
    assert scored(lambda **_: 1)["reward_extra_info"] == {"acc": 1}


def test_the_manager_is_the_one_of_our_configuration():
    register_manager()
    assert resolve_reward_manager_cls(composed([])) is RewardManager
    other = resolve_reward_manager_cls(composed(["reward.reward_manager.name=naive"]))
    assert other is not RewardManager
