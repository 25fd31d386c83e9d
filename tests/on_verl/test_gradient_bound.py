"""The bound on the judge's gradient in log-probability space, worked out by hand."""

import math

import numpy as np
import pytest
import torch

from letters import Letters
from metis import Batch, Group, Prompt
from metis.core import Continuation, Judgment, Trajectory
from metis.engines.objective.gradient_bound import FLOOR, MEMORY, GradientBound
from metis.engines.objective.loss import surrogate_loss
from metis.engines.verl.workers.gradient_bound import (
    bound_judgments,
    judge_norm,
    large_norm,
    policy_norm,
)
from metis.engines.verl.workers.loss import JudgeColumn, replies_loss
from metis.engines.verl.workers.rows import minibatch_rows

CHAT = [{"role": "user", "content": "???"}]
ONE, TWO = Prompt("one", "1?"), Prompt("two", "2?")


def trajectory(tokens, earlier=()):
    """A prompt of three tokens, and so many written ones."""
    mask = np.arange(3 + tokens) >= 3
    return Trajectory(np.arange(3 + tokens), mask, np.zeros(3 + tokens, np.float32), 0, earlier)


GROUP = Group(ONE, (1.0, 0.0, 0.0, 0.0), tuple(map(trajectory, (1, 2, 4, 4))))
"""Advantages 3/4 and -1/4."""
POLICY = math.sqrt(9 / 16 / 1 + 1 / 16 / 2 + 2 * (1 / 16 / 4)) / 4
LARGE = math.sqrt(1 / 4 * (1 / 1 + 1 / 2 + 2 / 4)) / 4
REPLY = Judgment(ONE, trajectory(4), 0.5, weight=2.0 / 4)
CHOICES = [
    Judgment(TWO, Continuation(CHAT, str(i), -1.0), a, 2.0) for i, a in enumerate((0.6, -0.6))
]
JUDGE = math.sqrt(4 * (0.25 * 0.5) ** 2 + 2 * 0.6**2)
"""Two judgments, so that each weighs half: four tokens of a reply, two choices of a tree."""


def cut(batch, size=2):
    return minibatch_rows(batch, size, Letters(), str)


def coefficients(parts):
    return [row.judge.coefficient for part in parts for row in part if row.kind == "judgment"]


def test_norms_by_hand():
    [part] = cut(Batch([GROUP], [REPLY, *CHOICES]))
    assert policy_norm(part) == pytest.approx(POLICY)
    assert large_norm(part) == pytest.approx(LARGE)
    assert judge_norm(part) == pytest.approx(JUDGE)


def test_a_rollout_of_several_outputs_counts_once_in_the_mean_of_its_group():
    parts = (trajectory(2, earlier=(trajectory(1),)), trajectory(4))
    [part] = cut(Batch([Group(ONE, (1.0, 0.0), parts)]))
    assert policy_norm(part) == pytest.approx(math.sqrt(1 / 4 * (1 / 1 + 1 / 2 + 1 / 4)) / 2)


def test_the_judge_s_norm_is_that_of_its_loss():
    """The gradient that the workers will have, by the log-probability of each unit."""
    [part] = cut(Batch([GROUP], [REPLY, *CHOICES]))
    reply, choices = (row for row in part if row.kind == "judgment")
    now = torch.full((1, 4), -2.0).requires_grad_()
    column = JudgeColumn(*torch.tensor([reply.judge]).unbind(-1))
    replies_loss(now, now.detach(), torch.ones(1, 4), column, 0.2, 0.2).backward()
    each = torch.full((2,), -2.0).requires_grad_()
    (
        choices.judge.coefficient
        * surrogate_loss(each, [choices.scored.choices.terms], 0.2, 0.2)[0]
    ).backward()
    total = torch.cat([now.grad.flatten(), each.grad])
    assert float(total.norm()) == pytest.approx(judge_norm(part))


def test_the_judge_is_scaled_to_its_share_of_the_policy_s_running_mean():
    bound, before = GradientBound(), coefficients(cut(Batch([GROUP], [REPLY, *CHOICES])))
    first = cut(Batch([GROUP], [REPLY, *CHOICES]))
    assert bound_judgments(first, 0.25, bound) == {"judge/gradient_ratio": pytest.approx(0.25)}
    assert bound.mean == pytest.approx(POLICY)
    scale = 0.25 * POLICY / JUDGE
    assert coefficients(first) == pytest.approx([scale * value for value in before])
    assert judge_norm(first[0]) == pytest.approx(0.25 * POLICY)
    assert policy_norm(first[0]) == pytest.approx(POLICY), "rollouts are left alone"

    half = Group(ONE, (0.5, 0.0, 0.0, 0.0), GROUP.trajectories)
    second = cut(Batch([half], [REPLY, *CHOICES]))
    bound_judgments(second, 0.25, bound)
    assert bound.mean == pytest.approx(MEMORY * POLICY + (1 - MEMORY) * POLICY / 2)
    assert judge_norm(second[0]) == pytest.approx(0.25 * bound.mean)


def test_a_judge_within_its_share_is_not_scaled():
    parts = cut(Batch([GROUP], [REPLY, *CHOICES]))
    before = coefficients(parts)
    found = bound_judgments(parts, 10.0, GradientBound())
    assert found == {"judge/gradient_ratio": pytest.approx(JUDGE / POLICY)}
    assert coefficients(parts) == before


def test_where_no_group_varies_the_floor_is_the_reference():
    same = Group(ONE, (1.0,) * 4, GROUP.trajectories)
    parts, bound = cut(Batch([same], [REPLY, *CHOICES])), GradientBound()
    bound_judgments(parts, 0.25, bound)
    assert bound.mean is None
    assert judge_norm(parts[0]) == pytest.approx(0.25 * FLOOR * LARGE)


def test_each_mini_batch_has_its_own_bound():
    """The second has judgments alone: it is measured by what is known of the first."""
    failed = Group(TWO, (), (), failed=4)
    parts, bound = cut(Batch([GROUP, failed], [REPLY, *CHOICES]), size=1), GradientBound()
    assert [{row.kind for row in part} for part in parts] == [{"rollout", "judgment"}, {"judgment"}]
    found = bound_judgments(parts, 0.25, bound)
    assert [judge_norm(part) for part in parts] == pytest.approx([0.25 * POLICY] * 2)
    assert found == {"judge/gradient_ratio": pytest.approx(0.25)}
    assert bound.mean == pytest.approx(POLICY) and bound.large == pytest.approx(LARGE)


@pytest.mark.parametrize(("judgments", "share"), [([], 0.25), ([REPLY, *CHOICES], 0.0)])
def test_without_judgments_or_a_share_nothing_changes(judgments, share):
    parts, bound = cut(Batch([GROUP], judgments)), GradientBound()
    before = [row.judge for row in parts[0]]
    assert bound_judgments(parts, share, bound) == {}
    assert [row.judge for row in parts[0]] == before
    assert bound == GradientBound()
