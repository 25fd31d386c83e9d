"""Our gradient is TRL's: the same rollouts and rewards through both, compared weight by weight."""

import numpy as np
import pytest
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from metis.core import Batch, Group, Prompt, Trajectory
from metis.engines.local.model.policy import Policy
from metis.engines.local.settings import LocalSettings
from metis.engines.local.update.gradients import backward
from metis.engines.local.update.rows import local_minibatches

pytestmark = pytest.mark.filterwarnings("ignore")

GROUP = 4
PARTS = ("prompt", "completion")
ENDS = list(range(12))
"""Tokens that end a completion, so that a random model writes completions of many lengths."""


@pytest.fixture(params=[1.0, 0.7])
def trl(request, tiny, tmp_path):
    """TRL's gradient by name, the batch it generated, and the rewards it gave."""
    rewards = []

    def reward(completions, **_):
        rewards.extend((len(text) % 3) / 2 for text in completions)
        return rewards[-len(completions) :]

    rows = [{"prompt": f"q {i} " * (1 + i % 3)} for i in range(8)]
    arguments = GRPOConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=2 * GROUP,
        num_generations=GROUP,
        max_completion_length=16,
        temperature=request.param,
        scale_rewards="none",
        loss_type="grpo",
        beta=0.0,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
    )
    model = AutoModelForCausalLM.from_pretrained(tiny)
    model.generation_config.eos_token_id = ENDS
    trainer = GRPOTrainer(
        model,
        reward,
        arguments,
        Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(tiny, padding_side="left"),
    )
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    batch = trainer._generate_and_score_completions([rows[1]] * GROUP + [rows[2]] * GROUP)
    trainer._compute_loss(trainer.model, batch).backward()
    gradient = {name: weight.grad for name, weight in trainer.model.named_parameters()}
    return request.param, gradient, batch, rewards


def trajectory(batch, row: int) -> Trajectory:
    """A row of TRL's batch without its padding."""
    parts = [batch[f"{part}_ids"][row][batch[f"{part}_mask"][row] > 0] for part in PARTS]
    written = np.repeat([False, True], [len(part) for part in parts])
    tokens = np.concatenate([part.numpy() for part in parts])
    return Trajectory(tokens, written, np.zeros(len(tokens), np.float32), policy=0)


def difference(tiny, temperature, gradient, batch, rewards) -> float:
    """The largest difference between TRL's gradient and ours on the same rollouts."""
    settings = LocalSettings(model=str(tiny), device="cpu", temperature=temperature)
    policy = Policy(tiny, settings)
    rollouts = [trajectory(batch, row) for row in range(len(rewards))]
    groups = [
        Group(Prompt(f"q:{i}", ""), tuple(rewards[i : i + GROUP]), tuple(rollouts[i : i + GROUP]))
        for i in range(0, len(rewards), GROUP)
    ]
    [part] = local_minibatches(policy, Batch(groups), settings, version=0)
    backward(policy, part.items, settings)
    ours = dict(policy.network.named_parameters())
    assert ours.keys() == gradient.keys()
    return max(float((ours[name].grad - wanted).abs().max()) for name, wanted in gradient.items())


def test_the_policy_gradient_is_that_of_trl(tiny, trl):
    _, gradient, batch, _ = trl
    assert len(set(batch["completion_mask"].sum(1).tolist())) > 2
    assert max(float(values.abs().max()) for values in gradient.values()) > 0.01
    assert difference(tiny, *trl) < 1e-6  # observed: 1.5e-7 and 3.3e-7, gradients up to 0.4


def test_another_reward_is_another_gradient(tiny, trl):
    *same, rewards = trl
    assert difference(tiny, *same, [abs(rewards[0] - 0.1), *rewards[1:]]) > 1e-4
