"""The trial: half and half while the judge shows no skill, and again when it loses it."""

import json
from itertools import combinations, pairwise

import numpy as np
import pytest

from metis import Group, Pool, Progress, Prompt, drive
from metis.core import Engine, Trajectory
from metis.curricula.judges import Direct
from metis.curricula.judges.scale import GRID
from metis.curricula.metis import Metis
from metis.curricula.trial import StepComparison, Trial, on_trial, realised_lift, step_comparison
from metis.engines.simulated import SimulatedEngine, Simulation

POOL = [Prompt(f"p{i}", f"text of p{i}.") for i in range(400)]


class World(Engine):
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


def test_the_error_of_the_lift_is_that_of_all_assignments():
    chosen, uniform = [0.25, 0.1, 0.0], [0.0, 0.0, 0.2, 0.05]
    outcomes = chosen + uniform
    differences = [
        np.mean([outcomes[i] for i in some])
        - np.mean([v for i, v in enumerate(outcomes) if i not in some])
        for some in combinations(range(7), 3)
    ]
    [comparison] = step_comparison(4, chosen, uniform)
    lift = realised_lift([comparison])
    assert lift.mean == pytest.approx(np.mean(chosen) - np.mean(uniform))
    assert lift.z == pytest.approx(lift.mean / np.std(differences))


def test_steps_add_up_by_what_they_can_tell():
    steps = [StepComparison(0, 0.1, 4.0, 0.01), StepComparison(1, -0.05, 1.0, 0.04)]
    lift = realised_lift(steps)
    assert lift.mean == pytest.approx((4 * 0.1 - 0.05) / 5)
    assert lift.z == pytest.approx((4 * 0.1 - 0.05) / np.sqrt(4 * 0.01 + 0.04))


def test_steps_without_variance_or_a_side_say_nothing():
    assert step_comparison(0, [0.0, 0.0], [0.0]) == [] == step_comparison(0, [], [0.1, 0.2])
    assert realised_lift([]) is None
    assert on_trial(True, None) and not on_trial(False, None)


def test_it_opens_above_233_and_closes_below_0():
    def lift(z):
        return realised_lift([StepComparison(0, z, 1.0, 1.0)])

    assert on_trial(True, lift(2.3)) and not on_trial(True, lift(2.4))
    assert not on_trial(False, lift(0.1)) and on_trial(False, lift(-0.1))


def test_its_state_is_json_and_comes_back_typed():
    one, other = Trial(4), Trial(4)
    one.decide(0)
    one.comparisons = [StepComparison(0, 0.1, 4.0, 0.01)]
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    assert other == one and other.on and other.comparisons[0].weight == 4.0


def metis(**knobs):
    return Metis(**{"batch": 20, "group": 4, "multiplier": 4, "judge": Direct(replay=0), **knobs})


def test_the_judge_has_half_until_skill_is_shown_and_again_when_it_is_lost():
    curriculum, pool = metis(), Pool(POOL)
    good, bad = World(+1), World(-1)

    start = run(curriculum, pool, good, 0, 4)
    trial = [batch.metrics["select/trial"] for batch in start]
    assert trial[0] == 1.0 and trial[-1] == 0.0
    told = [bool(batch.notices) for batch in start]
    assert told == [True, *(before != now for before, now in pairwise(trial))]
    reasons = [decision.reason for decision in start[0].decisions if decision.chosen]
    assert sorted(reasons) == ["top"] * 10 + ["trial"] * 10
    assert odd_share(start[-1]) > 0.9

    lost = run(curriculum, pool, bad, 4, 30)
    trial = [batch.metrics["select/trial"] for batch in lost]
    assert trial[0] == 0.0 and trial[-1] == 1.0
    [again] = [i for i, (before, now) in enumerate(pairwise(trial), start=1) if now > before]
    assert lost[again].notices
    assert 0.1 < odd_share(lost[-1]) < 0.5, "half of the batch is uniform"
    assert lost[-1].judgments, "the judge goes on learning while it is on trial"

    back = run(curriculum, pool, good, 34, 20)
    assert back[-1].metrics["select/trial"] == 0.0
    assert odd_share(back[-1]) > 0.9


def test_uniform_slots_are_unbiased_and_measured():
    curriculum, pool = metis(explore=0.25), Pool(POOL)
    batches = run(curriculum, pool, World(+1), 0, 60)[5:]
    explored = [d for b in batches for d in b.decisions if d.reason == "explore"]
    assert len(explored) == 5 * len(batches)
    share = np.mean([int(decision.prompt.id[1:]) % 2 for decision in explored])
    assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(len(explored))
    last = batches[-1].metrics
    assert last["judge/spearman"] > 0.8, "a perfect one, of outcomes of two values, is 0.87"
    assert 0 < last["judge/spearman_error"] < 0.1
    assert last["judge/lift"] > 1.5 and last["judge/realised_lift"] > 0.05
    assert last["select/chosen_reward"] == 0.5


def test_without_a_trial_the_judge_selects_at_once():
    curriculum, pool = metis(trial=0, explore=0.0), Pool(POOL)
    batches = run(curriculum, pool, World(-1), 0, 3)
    assert odd_share(batches[-1]) == 0.0
    assert not any(batch.notices for batch in batches)


def test_a_single_slot_is_not_tried():
    curriculum, pool = metis(batch=1), Pool(POOL)
    batches = run(curriculum, pool, World(+1), 0, 3)
    assert [batch.metrics["select/trial"] for batch in batches] == [0.0] * 3
    assert not any(batch.notices for batch in batches)


def test_more_exploration_than_half_is_kept_on_trial():
    [batch] = run(metis(explore=0.75), Pool(POOL), World(+1), 0, 1)
    assert sum(decision.reason == "trial" for decision in batch.decisions) == 15


def test_the_window_is_bounded_in_steps():
    curriculum, pool = metis(trial=3), Pool(POOL)
    run(curriculum, pool, World(+1), 0, 9)
    assert [each.step for each in curriculum.judge_trial.comparisons] == [5, 6, 7, 8]


def alone(steps, seed, **simulation):
    """For each step of a simulated run: did the judge choose alone, and did any group vary?"""
    engine = SimulatedEngine(Simulation(prompts=4000, **simulation), seed)
    curriculum = Metis(batch=16, multiplier=3, judge=Direct(replay=8))
    pool = Pool(engine.pool, seed=seed)
    found = []
    for step in range(steps):
        batch = drive(curriculum.step(pool, Progress(step, 0.0, engine.version, seed)), engine)
        engine.update(batch)
        found.append((not batch.metrics["select/trial"], any(g.informative for g in batch.groups)))
    return found


@pytest.mark.parametrize("hardness", [1.0, 6.0])
def test_a_judge_of_pure_noise_seldom_selects_alone(hardness):
    shares = [
        np.mean(
            [trusted for trusted, _ in alone(200, seed, noise=1e6, hardness=hardness, rate=0.0)]
        )
        for seed in range(3)
    ]
    assert np.mean(shares) <= 0.15, shares


@pytest.mark.parametrize("hardness", [1.0, 6.0])
def test_a_good_judge_selects_within_15_steps_of_its_first_informative_outcomes(hardness):
    for seed in range(3):
        found = alone(40, seed, noise=0.1, hardness=hardness)
        first = next(i for i, (_, informative) in enumerate(found) if informative)
        opened = next(i for i, (trusted, _) in enumerate(found) if trusted)
        assert opened - first <= 15, seed
