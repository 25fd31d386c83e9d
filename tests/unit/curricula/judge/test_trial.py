"""The guard: uniform while the judge shows no skill, and back when it does."""

import numpy as np

from metis import Group, Pool, Progress, Prompt, drive
from metis.core import Score, Trajectory
from metis.curricula.judge.scale import GRID
from metis.curricula.metis import Metis

POOL = [Prompt(f"p{i}", f"text of p{i}.") for i in range(400)]


class World:
    """Odd prompts are informative, even ones dead; the judge knows (skill 1) or errs (skill -1)."""

    def __init__(self, skill: int):
        self.skill = skill
        self.scored = 0

    def score(self, chats, choices):
        self.scored = len(chats)
        rows = []
        for chat in chats:
            odd = int(chat[-1]["content"].rsplit("text of p", 1)[1].split(".")[0]) % 2
            high = odd if self.skill > 0 else 1 - odd
            rows.append([0.0 if g == (0.2 if high else 0.02) else -8.0 for g in GRID])
        return rows

    def rollout(self, prompts, n):
        mask = np.ones(1, bool)
        one = Trajectory(np.zeros(1, np.int64), mask, np.zeros(1, np.float32), 0)
        groups = []
        for prompt in prompts:
            k = n // 2 if int(prompt.id[1:]) % 2 else 0
            groups.append(Group(prompt, (1.0,) * k + (0.0,) * (n - k), (one,) * n))
        return groups


def run(curriculum, pool, world, start, steps):
    return [
        drive(curriculum.step(pool, Progress(step)), world) for step in range(start, start + steps)
    ]


def odd_share(batch) -> float:
    return float(np.mean([int(group.prompt.id[1:]) % 2 for group in batch.groups]))


def test_selection_starts_when_skill_is_shown_stops_when_lost_and_returns():
    curriculum, pool = Metis(batch=20, group=4, multiplier=4, guard=40), Pool(POOL)
    good, bad = World(+1), World(-1)

    start = run(curriculum, pool, good, 0, 4)  # one warm-up step, two that gather 40 outcomes
    assert [batch.metrics.get("select/guarded") for batch in start] == [None, 1.0, 1.0, 0.0]
    assert "until 40 outcomes show skill" in start[1].notices[0]
    assert "it selects" in start[3].notices[0]
    assert odd_share(start[3]) > 0.9

    lost = run(curriculum, pool, bad, 4, 30)
    guarded = [batch.metrics["select/guarded"] for batch in lost]
    assert guarded[0] == 0.0
    assert guarded[-1] == 1.0
    assert sum(len(batch.notices) for batch in lost) == 1
    assert 0.2 < odd_share(lost[-1]) < 0.8
    assert lost[-1].judgments, "the judge goes on learning while it is guarded"

    back = run(curriculum, pool, good, 34, 6)
    assert back[-1].metrics["select/guarded"] == 0.0
    assert odd_share(back[-1]) > 0.9


def test_a_guarded_step_judges_the_batch_only():
    curriculum, pool, world = Metis(batch=20, group=4, guard=40), Pool(POOL), World(+1)
    run(curriculum, pool, world, 0, 2)
    assert world.scored == 20


def test_exploration_slots_are_unbiased_and_measured():
    curriculum, pool = Metis(batch=20, group=4, multiplier=4, guard=40, explore=0.25), Pool(POOL)
    batches = run(curriculum, pool, World(+1), 0, 60)[5:]
    explored = [d for b in batches for d in b.decisions if d.reason == "explore"]
    assert len(explored) == 5 * len(batches)
    share = np.mean([int(decision.prompt.id[1:]) % 2 for decision in explored])
    assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(len(explored))
    assert batches[-1].metrics["judge/spearman"] == 1.0
    assert batches[-1].metrics["judge/lift"] > 1.5


def test_without_a_guard_the_judge_selects_at_once():
    curriculum, pool = Metis(batch=20, group=4, multiplier=4, guard=0, explore=0.0), Pool(POOL)
    batches = run(curriculum, pool, World(-1), 0, 3)
    assert odd_share(batches[-1]) == 0.0
    assert not any(batch.notices for batch in batches)


def test_requests_are_scores_of_all_candidates_once_unguarded():
    curriculum, pool, world = Metis(batch=20, group=4, multiplier=4, guard=40), Pool(POOL), World(1)
    run(curriculum, pool, world, 0, 3)
    plan = curriculum.step(pool, Progress(3))
    request = plan.send(None)
    assert isinstance(request, Score)
    assert len(request.chats) == 80
