"""Knapsack RL: the allocation by hand and against dynamic programming, and its predictor."""

import math

import numpy as np
import pytest

from laws import run
from metis import Group, MetisError, Pool, Progress, Prompt, drive
from metis.config import resolve
from metis.curricula import knapsack
from metis.curricula.allocation import divide, evenly, pass_rate
from metis.curricula.judges import History, Prediction
from metis.curricula.knapsack import Knapsack
from metis.engines.simulated import SimulatedEngine, Simulation
from metis.run.meter import Meter


def predicted(*rates):
    return [Prediction(Prompt(f"p{i}", ""), None, None, pass_rate=p) for i, p in enumerate(rates)]


def allocated(curriculum, *rates):
    return curriculum.allocate(predicted(*rates)).tolist()


def value(p, n):
    """The value of a prompt with n rollouts, of the paper: ProbNonZeroGradient times InfoGain."""
    return (1 - p**n - (1 - p) ** n) * p * (1 - p) ** 2


def test_the_value_of_a_rollout_by_hand():
    """p = 1/2: 3 rollouts are mixed with 3/4, 2 with 1/2, so the third adds 1/4 of 1/8."""
    gains = Knapsack(group=4, least=2, most=4)._gains(np.array([0.5, 0.25]))
    assert gains[0].tolist() == pytest.approx([1 / 32, 1 / 64])
    assert gains[1, 0] == pytest.approx(value(0.25, 3) - value(0.25, 2))
    assert value(0.25, 3) == pytest.approx((1 - 1 / 64 - 27 / 64) * 0.25 * 0.5625)


def by_dynamic_programming(rates, least, most, budget):
    """The highest sum of values: the paper's knapsack, each prompt with any count."""
    best = {0: 0.0}
    for p in rates:
        after: dict[int, float] = {}
        for spent, total in best.items():
            for n in range(least, most + 1):
                key = spent + n
                after[key] = max(after.get(key, -math.inf), total + value(p, n))
        best = after
    return best[budget]


@pytest.mark.parametrize("seed", range(6))
def test_no_other_division_is_worth_more(seed, monkeypatch):
    """Every prompt is so uncertain that nothing is to spare: the knapsack alone decides."""
    rates = np.random.default_rng(seed).choice(np.arange(1, 16) / 16, size=7).tolist()
    monkeypatch.setattr(knapsack, "CONFIDENCE", 1 - 1e-9)
    curriculum = Knapsack(group=5, least=2, most=12)
    counts = allocated(curriculum, *rates)
    assert sum(counts) == 35 and min(counts) >= 2 and max(counts) <= 12
    ours = sum(value(p, n) for p, n in zip(rates, counts, strict=True))
    assert ours == pytest.approx(by_dynamic_programming(rates, 2, 12, 35), rel=1e-12)


def test_solved_and_unsolved_prompts_have_least_and_a_hard_one_most():
    counts = allocated(Knapsack(group=8), 0.0, 1.0, 1 / 16, 0.5)
    assert counts[:2] == [2, 2] and counts[2] > counts[3] > 2 and sum(counts) == 32


def test_what_is_to_spare_goes_to_the_unsolved_then_to_the_solved():
    """p = 1/2 is mixed with 0.9 after log 0.1 / log 0.5 = 3.3, that is 4 rollouts.

    Of 32 rollouts 2 * 4 are wanted, 2 * 2 are the least of the others: 20 are to spare.
    """
    assert allocated(Knapsack(group=8), 0.5, 0.5, 0.0, 0.0) == [4, 4, 12, 12]
    assert allocated(Knapsack(group=8), 0.5, 0.5, 1.0, 1.0) == [4, 4, 12, 12]
    assert allocated(Knapsack(group=8), 0.5, 1.0, 0.0, 1.0) == [4, 2, 24, 2]
    assert allocated(Knapsack(group=8, most=10), 0.5, 1.0, 0.0, 1.0) == [4, 9, 10, 9]


def test_a_prompt_without_a_prediction_has_n():
    assert allocated(Knapsack(group=8), None, None) == [8, 8]
    assert allocated(Knapsack(group=8), None, 0.0, 0.5) == [8, 12, 4]
    assert allocated(Knapsack(group=8), 0.5, 0.5) == [8, 8]


def test_a_variance_alone_is_taken_for_that_of_a_hard_prompt():
    hard = Prediction(Prompt("x", ""), 0.1875, 0.1875)
    assert pass_rate(hard) == pytest.approx(0.25)
    assert pass_rate(Prediction(Prompt("x", ""), 0.3, 0.3)) == 0.5
    assert pass_rate(Prediction(Prompt("x", ""), 0.1875, 0.1875, pass_rate=0.75)) == 0.75
    assert pass_rate(Prediction(Prompt("x", ""), None, None)) is None


def test_shares_are_even_where_all_gains_are_equal():
    assert evenly(np.array([9, 9, 0, 1]), 6).tolist() == [3, 2, 0, 1]
    assert divide(np.ones((2, 3)), np.array([1, 1]), 9).tolist() == [1, 1]


def outcome(prompt, passes, n):
    return Group(Prompt(prompt, prompt), (1.0,) * passes + (0.0,) * (n - passes))


def test_the_pass_rate_is_of_the_last_sixteen_rewards_or_of_a_larger_group():
    judge, seen = History(), Prompt("x", "x")
    pool, progress = Pool([seen]), Progress(0)
    for passes, n, rate in ((4, 4, None), (0, 4, 0.5), (8, 8, 0.75), (2, 8, 0.625), (0, 20, 0.0)):
        judge.learn(None, [outcome("x", passes, n)], pool, progress)
        assert judge.pass_rate(seen) == rate, (passes, n)
    assert len(judge.rewards["x"]) == 20
    judge.learn(None, [outcome("x", 8, 8)], pool, progress)
    assert judge.pass_rate(seen) == 0.5 and len(judge.rewards["x"]) == 16


def test_in_ranking_an_unseen_prompt_is_as_good_as_the_usual_one():
    judge = History(enough=2)
    prompts = [Prompt(name, name) for name in "abc"]
    pool = Pool(prompts)
    plan = judge.predict(prompts, 1, pool, Progress(0))
    assert [each.score for each in drive(plan, None).candidates] == [None] * 3
    judge.learn(None, [outcome("a", 1, 2), outcome("b", 2, 2)], pool, Progress(0))
    found = drive(judge.predict(prompts, 1, pool, Progress(1)), None).candidates
    assert [each.score for each in found] == [0.25, 0.0, 0.125]
    assert [each.v_hat for each in found] == [0.25, 0.0, None]


@pytest.mark.parametrize("judge", ["history", "readout", "direct"])
def test_the_budget_is_kept_and_rollouts_have_more_variance_than_in_equal_groups(judge):
    """The policy stands still. The variance is that of the update: a mean over rollouts."""

    def trained(name, **settings):
        section = {"name": name, **settings}
        curriculum = resolve({"batch": 32, "group": 8, "curriculum": section}).curriculum
        engine = SimulatedEngine(Simulation(prompts=128, heldout=1, rate=0.0))
        meter = Meter(engine)
        batches = run(curriculum, engine, Pool(engine.pool), 24, through=meter)
        assert meter.counts["rollout/generated"] == 24 * 32 * 8
        late = [group for batch in batches[8:] for group in batch.groups]
        sizes = {len(group.rewards) for batch in batches[8:] for group in batch.groups}
        weights = [len(group.rewards) for group in late]
        return np.average([group.variance for group in late], weights=weights), sizes

    (uniform, one), (ours, sizes) = trained("uniform"), trained("knapsack", judge=judge)
    assert one == {8} and len(sizes) > 4
    assert ours > 1.2 * uniform


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"least": 9}, "curriculum.least = 9"),
        ({"least": 1}, "curriculum.least = 1"),
        ({"most": 7}, "curriculum.most = 7"),
    ],
)
def test_impossible_settings_are_refused(settings, words):
    with pytest.raises(MetisError, match=words):
        Knapsack(**settings)


def test_impossible_memories_are_refused():
    with pytest.raises(MetisError, match=r"curriculum\.judge\.enough = 20"):
        History(enough=20)
