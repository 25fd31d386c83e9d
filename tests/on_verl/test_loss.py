"""The gradient law: judge's rows leave the rollouts' gradients alone, and have their own."""

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_module
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage
from verl.utils import tensordict_utils
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.utils.losses import ppo_loss

from metis.core import Batch, Group, Prompt, Trajectory
from metis.engines.local.settings import LocalSettings
from metis.engines.local.update.rows import local_minibatches
from metis.engines.verl.workers.loss import JudgeColumn, metis_loss
from metis.engines.verl.workers.rows import minibatch_rows, order_rows
from metis.signal import advantages

PROMPTS, GROUP, DP = 2, 4, 2
ROLLOUTS = PROMPTS * GROUP
JUDGMENTS = [  # of sampled replies: advantage, weight, clip
    (0.7, 0.25, 0),
    (-0.4, 0.5, 1),
    (0.3, 1.0, 0),
    (-0.9, 0.125, 1),
]


@pytest.fixture(scope="module")
def actor():
    def build(*overrides):
        with initialize_config_module("metis.engines.verl.config", version_base=None):
            config = compose("metis_trainer", [f"actor_rollout_ref.actor.{o}" for o in overrides])
        return omega_conf_to_dataclass(config.actor_rollout_ref.actor)

    return build


def nested(rows):
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


class Rows:
    """Random rollouts, with or without judgments after them."""

    def __init__(self, judgments: int, offset: float = 0.05) -> None:
        draw = torch.Generator().manual_seed(0)
        count = ROLLOUTS + judgments
        sizes = torch.randint(3, 9, (ROLLOUTS + len(JUDGMENTS), 2), generator=draw)[:count]
        noise = [torch.randn(20, 3, generator=draw) for _ in range(ROLLOUTS + len(JUDGMENTS))]
        self.leaves, fields = [], []
        for i, (prompt, answer) in enumerate(sizes.tolist()):
            leaf = (noise[i][: prompt + answer, 0] - 3).clone().requires_grad_()
            self.leaves.append(leaf)
            written = torch.ones(answer, dtype=torch.long)
            judge = JudgeColumn(rollouts=ROLLOUTS)
            if i >= ROLLOUTS:
                advantage, weight, clip = JUDGMENTS[i - ROLLOUTS]
                judge = JudgeColumn(advantage, weight / PROMPTS, clip, ROLLOUTS)
            now = leaf.detach()[prompt - 1 : -1]
            fields.append(
                {
                    "input_ids": torch.zeros(prompt + answer, dtype=torch.long),
                    "prompts": torch.zeros(prompt, dtype=torch.long),
                    "responses": torch.zeros(answer, dtype=torch.long),
                    "response_mask": written * (i < ROLLOUTS),
                    "loss_mask": written * (i < ROLLOUTS),
                    "judge_mask": written * (i >= ROLLOUTS),
                    "judge": torch.tensor(judge),
                    "old_log_probs": now + offset * noise[i][:answer, 1],
                    "ref_log_prob": now + 0.3 * noise[i][:answer, 2],
                    "advantages": noise[i][0, 2] * torch.ones(answer) * (i < ROLLOUTS),
                }
            )
        self.sizes = sizes.tolist()
        self.old = [row["old_log_probs"] for row in fields]
        tokens = sum(int(row["loss_mask"].sum()) for row in fields)
        self.data = tensordict_utils.get_tensordict(
            {
                **{name: nested([row[name] for row in fields]) for name in fields[0]},
                "choices": [b""] * len(fields),
            },
            {"dp_size": DP, "batch_num_tokens": tokens, "global_batch_size": ROLLOUTS},
        )

    def gradients(self, loss, config):
        output = {"log_probs": nested(self.leaves)}
        value, metrics = loss(config, output, self.data)
        value.backward()
        return [leaf.grad for leaf in self.leaves], metrics


@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"])
@pytest.mark.parametrize(
    "more",
    [
        [],
        ["use_kl_loss=True", "kl_loss_coef=0.1"],
        *([f"policy_loss.loss_mode={name}"] for name in ("gspo", "sapo", "gpg", "cispo")),
    ],
)
def test_rollouts_have_the_gradients_of_stock_verl(actor, mode, more):
    config = actor(f"loss_agg_mode={mode}", *more)
    stock, _ = Rows(0).gradients(ppo_loss, config)
    ours, _ = Rows(len(JUDGMENTS)).gradients(metis_loss, config)
    assert any(gradient.abs().sum() > 0 for gradient in stock)
    for mine, theirs in zip(ours[:ROLLOUTS], stock, strict=True):
        assert torch.equal(mine, theirs)


def test_judgments_have_lambda_times_the_estimator(actor):
    rows = Rows(len(JUDGMENTS), offset=0.0)
    gradients, metrics = rows.gradients(metis_loss, actor())
    for gradient, (prompt, answer), (advantage, weight, *_) in zip(
        gradients[ROLLOUTS:], rows.sizes[ROLLOUTS:], JUDGMENTS, strict=True
    ):
        expected = torch.zeros(prompt + answer)
        expected[prompt - 1 : -1] = -weight * advantage / PROMPTS * DP  # FSDP takes the mean
        assert torch.allclose(gradient, expected, atol=1e-7)
    assert "actor/judge_loss" in metrics


def test_a_clipped_judgment_stops_at_the_bound(actor):
    """A token whose ratio is beyond the bound has no gradient."""
    rows = Rows(len(JUDGMENTS), offset=0.0)
    old = [values.clone() for values in rows.old]
    old[ROLLOUTS + 1][0] += 1.0  # ratio e^-1 below 0.8, advantage negative: bounded
    old[ROLLOUTS + 3] += 1.0
    old[ROLLOUTS][0] += 1.0  # not clipped: the ratio does not matter
    rows.data["old_log_probs"] = nested(old)
    gradients, _ = rows.gradients(metis_loss, actor())
    reply, (prompt, _) = gradients[ROLLOUTS + 1], rows.sizes[ROLLOUTS + 1]
    assert reply[prompt - 1] == 0 and (reply[prompt:-1] != 0).all()
    assert (gradients[ROLLOUTS + 3] == 0).all()
    assert (gradients[ROLLOUTS][rows.sizes[ROLLOUTS][0] - 1 : -1] != 0).all()


def test_the_mini_batch_s_own_count_of_rollouts_is_the_denominator(actor):
    config = actor("loss_agg_mode=seq-mean-token-mean")
    rows = Rows(0)
    column = rows.data["judge"].values().clone().reshape(-1, len(JudgeColumn._fields))
    column[:, -1] = ROLLOUTS / 2
    rows.data["judge"] = nested(list(column))
    doubled, _ = rows.gradients(metis_loss, config)
    stock, _ = Rows(0).gradients(ppo_loss, config)
    for mine, theirs in zip(doubled, stock, strict=True):
        assert torch.allclose(mine, 2 * theirs)


@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-mean"])
def test_judgments_without_rollouts_have_a_finite_loss(actor, mode):
    """A mini-batch whose rollouts all failed has no tokens to take a mean over."""
    rows = Rows(len(JUDGMENTS), offset=0.0)
    rows.data["response_mask"] = nested([0 * mask for mask in rows.data["response_mask"].unbind()])
    tensordict_utils.assign_non_tensor(rows.data, batch_num_tokens=0)
    gradients, _ = rows.gradients(metis_loss, actor(f"loss_agg_mode={mode}"))
    assert all((gradient == 0).all() for gradient in gradients[:ROLLOUTS])
    for gradient, (prompt, _), (advantage, weight, *_) in zip(
        gradients[ROLLOUTS:], rows.sizes[ROLLOUTS:], JUDGMENTS, strict=True
    ):
        written = gradient[prompt - 1 : -1]
        assert torch.allclose(written, torch.tensor(-weight * advantage / PROMPTS * DP))


def test_advantages_over_their_deviation_are_the_same_on_both_engines():
    rewards = (0.0, 1.0, 1.0, 0.25)
    trajectory = Trajectory(np.arange(4), np.arange(4) > 1, np.zeros(4, np.float32), 0)
    group = Group(Prompt("one", "1?"), rewards, (trajectory,) * len(rewards))
    settings = LocalSettings(model="none", std_division=True)
    [part] = local_minibatches(None, Batch([group]), settings, 0)
    column = torch.tensor(rewards)[:, None]
    names = np.array([group.prompt.id] * len(rewards))
    theirs, _ = compute_grpo_outcome_advantage(column, torch.ones_like(column), names)
    ours = [item.terms.advantage[0] for item in part.items]
    assert ours == pytest.approx(theirs[:, 0].tolist(), rel=1e-6)


RAGGED = [(1.0, 0.0), (1.0, 0.5, 0.0, 0.0, 1.0, 0.0, 0.25), (0.0, 1.0, 1.0, 1.0), (1.0,)]


def written(seed: int) -> Trajectory:
    """A rollout with tokens, and so a length, of its own."""
    draw = np.random.default_rng(seed)
    tokens = draw.integers(0, 250, 5 + seed % 7)
    logprobs = draw.normal(-3.0, 0.1, len(tokens)).astype(np.float32)
    return Trajectory(tokens, np.arange(len(tokens)) >= 3, logprobs, 0)


@pytest.mark.parametrize("minibatch", [2, 4])
def test_the_gradient_of_groups_of_several_sizes_is_a_loop_over_them(actor, minibatch):
    """Groups of 2, 7, 4 and a single rollout, on two ranks; two mini-batches, or one."""
    groups = [
        Group(Prompt(f"{i}", ""), row, tuple(written(50 * i + j) for j in range(len(row))))
        for i, row in enumerate(RAGGED)
    ]
    parts = minibatch_rows(Batch(groups), minibatch, None, str)
    rows = order_rows(parts, DP, multiple=1, filler=7)
    scores = torch.tensor([row.reward for row in rows])[:, None]
    names = np.array([row.uid for row in rows])
    found, _ = compute_grpo_outcome_advantage(
        scores, torch.ones_like(scores), names, norm_adv_by_std_in_grpo=False
    )
    leaves = [torch.full((len(row.trajectory.tokens),), -3.0, requires_grad=True) for row in rows]
    share, size = len(rows) // DP, len(rows) // DP // len(parts)
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        output = {"log_probs": nested(leaves[part])}
        loss, _ = metis_loss(actor(), output, columns_of(rows[part], found[part, 0]))
        (loss / DP).backward()  # FSDP takes the mean over ranks
    assert share == size * len(parts)
    gradients = {
        row.trajectory.tokens.tobytes(): leaf.grad
        for row, leaf in zip(rows, leaves, strict=True)
        if row.kind == "rollout"
    }
    for cut in range(0, len(groups), minibatch):
        part = groups[cut : cut + minibatch]
        count = sum(len(group.rewards) for group in part)
        for group in part:
            for a, t in zip(advantages(group.rewards), group.trajectories, strict=True):
                if len(group.rewards) == 1:
                    assert t.tokens.tobytes() not in gradients
                    continue
                wanted = reference(float(a), t) / count
                assert torch.allclose(gradients[t.tokens.tobytes()], wanted, atol=1e-6)
    assert sum(bool(gradient.any()) for gradient in gradients.values()) == 13


def reference(advantage: float, trajectory: Trajectory) -> torch.Tensor:
    """The gradient of one rollout's clipped objective, a mean over its tokens."""
    now = torch.full((len(trajectory.tokens),), -3.0, requires_grad=True)
    old = torch.from_numpy(trajectory.logprobs[trajectory.loss_mask])
    ratio = torch.exp(now[2:-1] - old)
    objective = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
    (gradient,) = torch.autograd.grad(-objective.mean(), now)
    return gradient


def columns_of(rows, found):
    """What verl's workers have of these rows when they compute the loss."""
    named = ("input_ids", "prompts", "responses", "response_mask", "loss_mask", "judge_mask")
    fields = [
        {name: row.fields[name] for name in (*named, "judge")}
        | {
            "old_log_probs": row.fields["rollout_log_probs"],
            "advantages": advantage * row.fields["response_mask"],
        }
        for row, advantage in zip(rows, found, strict=True)
    ]
    tokens = sum(int(row["loss_mask"].sum()) for row in fields)
    return tensordict_utils.get_tensordict(
        {
            **{name: nested([row[name] for row in fields]) for name in fields[0]},
            "choices": [b""] * len(fields),
        },
        {"dp_size": DP, "batch_num_tokens": tokens, "global_batch_size": len(fields)},
    )
