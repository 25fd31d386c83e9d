"""The judge's part of the update: its gradient, the ratio, the bound; and that it learns."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from metis import Batch, Group, Pool, Progress, Prompt, drive
from metis.core import Continuation, Judgment, Trajectory
from metis.curricula.judges import Direct
from metis.curricula.judges.scale import PASSES, VARIANCE
from metis.curricula.judges.skill import spearman
from metis.curricula.metis import Metis
from metis.engines.local.engine import LocalEngine
from metis.engines.local.update.gradients import backward, remember_old
from metis.engines.local.update.rows import local_minibatches
from metis.tasks.arithmetic import Arithmetic, build

PROMPTS = [Prompt(f"p{i}", f"What is {i} + {7 * i}?") for i in range(8)]
both = pytest.mark.parametrize("scale", [VARIANCE, PASSES], ids=lambda scale: scale.name)


@pytest.fixture(params=["few rows a pass", "wide passes", "packed passes"])
def policy(policy, request):
    """All ways to cut rows into passes: a CPU's, and a GPU's with and without padding."""
    policy.wide = request.param != "few rows a pass"
    policy.packs = request.param == "packed passes"
    return policy


def engine(settings, **changes) -> LocalEngine:
    task = build(Arithmetic(prompts=20, heldout=4, levels=(1,)), 0)
    return LocalEngine(replace(settings, **changes), task)


def group(prompt: Prompt, seed: int, rewards=(1.0, 0.0, 1.0)) -> Group:
    def trajectory(length: int) -> Trajectory:
        tokens = np.random.default_rng([seed, length]).integers(0, 250, 5 + length)
        mask = np.arange(5 + length) >= 5
        return Trajectory(tokens, mask, np.zeros(5 + length, np.float32), 0)

    return Group(prompt, rewards, tuple(trajectory(3 + i) for i in range(len(rewards))))


def asked(scale):
    """Chats about all prompts, and numbers for a judgment of each: target and offsets."""
    draw = np.random.default_rng(3)
    chats = [[{"role": "user", "content": prompt.text}] for prompt in PROMPTS]
    targets = [scale.two_hot(float(point)) for point in draw.uniform(0, scale.points[-1], 8)]
    return chats, targets, draw.normal(0, 1, len(scale.choices))


def choice_logprobs(policy, chat, scale) -> torch.Tensor:
    """Log-probability of every choice, each as a plain sequence of its own."""
    context, found = policy.encode_chat(chat), []
    for choice in scale.choices:
        ids = torch.tensor(context + policy.encode_reply(choice))[None]
        logits = policy.network(input_ids=ids).logits[0, :-1]
        each = torch.log_softmax(logits, -1).gather(1, ids[0, 1:, None])[:, 0]
        found.append(each[len(context) - 1 :].sum())
    return torch.stack(found)


def log_score_batch(policy, scale, clip: bool) -> Batch:
    """Four groups with a judgment each, and four replayed, one of them of the same prompts."""
    chats, targets, offsets = asked(scale)
    keys = [""] * 4 + ["step 1", "step 1", "step 2"]
    judged = [*range(7), 0]
    rows = []
    for i, key in zip(judged, [*keys, "step 3"], strict=True):
        logprobs = choice_logprobs(policy, chats[i], scale).detach().numpy().astype(float)
        p = np.exp(logprobs + offsets - np.logaddexp.reduce(logprobs + offsets))
        for text, logprob, offset, advantage in zip(
            scale.choices, logprobs, offsets, targets[i] - p, strict=True
        ):
            continuation = Continuation(chats[i], text, float(logprob), float(offset))
            rows.append(Judgment(PROMPTS[i], continuation, float(advantage), 1.0, clip, key))
    return Batch(
        [group(prompt, i) for i, prompt in enumerate(PROMPTS[:4])], rows, gradient_share=0.5
    )


def gradients(policy) -> list[torch.Tensor]:
    found = [p.grad.clone() for p in policy.trainable]
    policy.network.zero_grad()
    return found


def same(one, other, tolerance=1e-6):
    for a, b in zip(one, other, strict=True):
        assert torch.allclose(a, b, atol=tolerance), float((a - b).abs().max())


def cross_entropy(policy, scale, judgments, old=None) -> torch.Tensor:
    """The mean over judgments of the cross-entropy, or of its clipped surrogate on ratios."""
    chats, targets, offsets = asked(scale)
    total = torch.zeros(())
    for i in judgments:
        target = torch.tensor(targets[i], dtype=torch.float32)
        shift = torch.tensor(offsets, dtype=torch.float32)
        logq = torch.log_softmax(choice_logprobs(policy, chats[i], scale) + shift, 0)
        if old is None:
            total = total - (target * logq).sum()
        else:
            advantage = target - old[i].exp()
            ratio = torch.exp(logq - old[i])
            surrogate = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
            total = total - surrogate.sum()
    return total / len(judgments)


@both
@pytest.mark.parametrize("clip", [False, True])
def test_log_score_has_the_gradient_of_the_cross_entropy(policy, settings, scale, clip):
    [part] = local_minibatches(policy, log_score_batch(policy, scale, clip), settings, 0)
    assert len(part.judgments) == 8, "every judgment reaches the loss, replayed ones too"
    backward(policy, part.judgments, settings)
    found = gradients(policy)
    cross_entropy(policy, scale, [*range(7), 0]).backward()
    same(found, gradients(policy), 1e-5)


@both
def test_later_mini_batches_are_clipped_on_normalised_probabilities(policy, settings, scale):
    two = replace(settings, minibatch=2)
    chats, _, offsets = asked(scale)
    shift = torch.tensor(offsets, dtype=torch.float32)
    parts = local_minibatches(policy, log_score_batch(policy, scale, True), two, 0)
    assert [len(part.judgments) for part in parts] == [4, 4]
    with torch.no_grad():
        old = [torch.log_softmax(choice_logprobs(policy, chat, scale) + shift, 0) for chat in chats]
    for part in parts:
        remember_old(policy, part, two)
    with torch.no_grad():
        for weight in policy.trainable:
            weight.add_(0.05 * torch.randn(weight.shape, generator=torch.manual_seed(0)))
    backward(policy, parts[1].judgments, two)
    found = gradients(policy)
    cross_entropy(policy, scale, [2, 3, 5, 0], old).backward()
    same(found, gradients(policy), 1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_a_sampled_judgment_is_trained_at_the_temperature_it_was_sampled_at(
    policy, settings, temperature
):
    """Beside scored choices, which have none; the rollouts' is another."""
    settings = replace(settings, temperature=0.8)
    replies = [group(prompt, i).trajectories[0] for i, prompt in enumerate(PROMPTS[:2])]
    rows = [
        Judgment(prompt, reply, advantage, 0.25, temperature=temperature)
        for prompt, reply, advantage in zip(PROMPTS, replies, (1.0, -0.5), strict=False)
    ]
    scored = log_score_batch(policy, PASSES, False)
    [part] = local_minibatches(
        policy, replace(scored, judgments=[*rows, *scored.judgments]), settings, 0
    )
    backward(policy, part.judgments, settings)
    found = gradients(policy)
    cross_entropy(policy, PASSES, [*range(7), 0]).backward()
    for row, reply in zip(rows, replies, strict=True):
        ids = torch.tensor(reply.tokens)[None]
        logits = policy.network(input_ids=ids).logits[0, :-1] / temperature
        each = torch.log_softmax(logits, -1).gather(1, ids[0, 1:, None])[:, 0]
        written = each[torch.tensor(reply.loss_mask[1:])].sum()
        (-row.advantage * row.weight / 8 * written).backward()
    same(found, gradients(policy), 1e-5)


def norm(tensors) -> float:
    return float(torch.nn.utils.get_total_norm(list(tensors)))


def test_the_judge_s_gradient_is_bounded_by_the_policy_s(settings):
    trained = engine(settings, gradient_clip=0.3)
    policy, stepper = trained.policy, trained.stepper
    batch = log_score_batch(policy, VARIANCE, True)
    [part] = local_minibatches(policy, batch, trained.settings, 0)
    backward(policy, part.answers, trained.settings)
    answers = gradients(policy)
    backward(policy, part.judgments, trained.settings)
    judge = gradients(policy)
    clip = min(1.0, 0.3 / norm(answers))
    assert clip < 1 and norm(judge) > 0.15, "both bounds are at work"

    stepper.optimizer.step = lambda: None
    metrics = stepper.step(part, 0.5)
    applied = [p.grad.clone() for p in policy.trainable]
    expected = [clip * a + 0.15 / norm(judge) * j for a, j in zip(answers, judge, strict=True)]
    same(applied, expected, 1e-5)
    assert metrics["update/gradient_norm"] == pytest.approx(norm(answers), rel=1e-4)
    assert metrics["judge/gradient_norm"] == pytest.approx(norm(judge), rel=1e-4)
    assert metrics["judge/gradient_ratio"] == pytest.approx(0.5)
    assert stepper.bound.mean == pytest.approx(0.3, rel=1e-4)


def test_a_step_without_a_policy_gradient_is_bounded_too_and_its_size_is_told(settings):
    trained = engine(settings)
    before = [p.detach().clone() for p in trained.policy.trainable]
    batch = log_score_batch(trained.policy, VARIANCE, True)
    dead = [group(g.prompt, i, (0.0, 0.0)) for i, g in enumerate(batch.groups)]
    metrics = trained.update(replace(batch, groups=dead))
    assert trained.stepper.bound.mean is None
    assert metrics["judge/gradient_ratio"] == pytest.approx(0.5)
    assert metrics["update/gradient_norm"] == 0.0
    moved = norm(b - a for a, b in zip(before, trained.policy.trainable, strict=True))
    assert metrics["update/judge_only"] == pytest.approx(moved, rel=1e-3)


@pytest.mark.parametrize("changes", [{"gradient_clip": 0.0}, {"lora": 2}, {"minibatch": 2}])
def test_the_bound_holds_whatever_is_trained_and_clipped(settings, changes):
    if "lora" in changes:
        pytest.importorskip("peft")
    trained = engine(settings, **changes)
    metrics = trained.update(log_score_batch(trained.policy, VARIANCE, True))
    assert metrics["update/non_finite"] == 0.0
    assert 0 < metrics["judge/gradient_ratio"] <= 0.5 + 1e-6


def test_an_infinite_policy_gradient_is_skipped_and_not_remembered(settings, monkeypatch):
    trained = engine(settings)
    before = [p.detach().clone() for p in trained.policy.trainable]
    monkeypatch.setattr(trained.stepper, "_clip", lambda: float("inf"))
    metrics = trained.update(log_score_batch(trained.policy, VARIANCE, True))
    assert metrics["update/non_finite"] == 1.0 and trained.stepper.bound.mean is None
    same(before, trained.policy.trainable, 0.0)


def test_without_judgments_nothing_changes(settings):
    groups = [group(prompt, i) for i, prompt in enumerate(PROMPTS[:4])]
    one, other = engine(settings), engine(settings)
    plain, bounded = one.update(Batch(groups)), other.update(Batch(groups, gradient_share=0.5))
    assert plain == bounded
    same(one.policy.trainable, other.policy.trainable, 0.0)


def test_the_bound_is_saved(settings, tmp_path):
    one, other = engine(settings), engine(settings)
    one.update(log_score_batch(one.policy, VARIANCE, True))
    one.save(tmp_path)
    other.load(tmp_path)
    assert other.stepper.bound.mean == one.stepper.bound.mean is not None


WORDS = ("red", "blue", "green", "grey", "pink", "brown", "black", "white")


def alive(prompt: Prompt) -> bool:
    """One prompt in eight is informative, and its text tells."""
    return prompt.text.startswith(WORDS[0])


class Painted(LocalEngine):
    """Judges with a real network; half of the rollouts of a prompt that is alive pass."""

    def rollout(self, prompts, n):
        groups = []
        for prompt in prompts:
            rewards = tuple(float(i < n // 2) if alive(prompt) else 0.0 for i in range(n))
            made = group(prompt, 0, rewards)
            fresh = tuple(replace(t, policy=self.version) for t in made.trajectories)
            groups.append(Group(prompt, rewards, fresh))
        return groups


def learnt(settings, scale: str) -> tuple[float, float]:
    """Rank correlation and log-odds spread of a tiny network's judgments after some steps."""
    pool = Pool([Prompt(f"n:{i}", f"{WORDS[i % 8]} {i}") for i in range(400)])
    task = build(Arithmetic(prompts=20, heldout=4, levels=(1,)), 0)
    trained = Painted(replace(settings, learning_rate=3e-4), task)
    judge = Direct(scale=scale, examples=0, replay=8)
    curriculum = Metis(batch=8, group=4, multiplier=2, judge=judge)
    ranks, spreads = [], []
    for step in range(36):
        batch = drive(curriculum.step(pool, Progress(step, 0.0, trained.version)), trained)
        trained.update(batch)
        outcomes = [float(alive(decision.prompt)) for decision in batch.decisions]
        ranks.append(spearman([d.score for d in batch.decisions], outcomes))
        spreads.append(batch.metrics["judge/spread"])
    late = [rank for rank in ranks[-12:] if rank is not None]
    return float(np.mean(late)), float(np.mean(spreads[-4:]))


@pytest.mark.parametrize("scale", ["variance", "passes"])
def test_the_judge_learns(settings, scale):
    rank, spread = learnt(settings, scale)
    assert rank > 0.3 and spread > 0.3
