"""A run's account: what is spent of a budget, and which test was the best."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metis import MetisError
from metis.run.budget import IDLE, Account, Budget


@pytest.mark.parametrize(
    ("budget", "fraction"),
    [
        (Budget(), 0.0),
        (Budget(steps=8), 0.25),
        (Budget(tokens=60), 0.5),
        (Budget(seconds=10.0), 0.75),
        (Budget(processed=500), 0.4),
        (Budget(processed=100, tokens=60), 1.0),
        (Budget(steps=8, tokens=60, seconds=10.0), 0.75),
        (Budget(steps=8, tokens=3), 1.0),
    ],
)
def test_the_limit_that_is_nearest_counts(budget, fraction):
    account = Account(budget, step=2, elapsed=7.5)
    written = {"rollout/tokens": 20, "judge/tokens": 10, "rollout/trained": 1000}
    account.count(written | {"rollout/processed": 80, "select/processed": 50})
    account.count({"select/processed": 70})
    assert account.fraction == fraction


def test_counts_add_up():
    account = Account(Budget())
    account.count({"rollout/tokens": 3})
    assert account.count({"rollout/tokens": 4}) == {"rollout/tokens": 4, "total/rollout_tokens": 7}


def test_every_benchmark_has_the_same_weight():
    metrics = Account(Budget()).test({"many": [0.0] * 98 + [1.0] * 2, "few": [1.0, 0.0]})
    assert metrics["eval/accuracy"] == pytest.approx((0.02 + 0.5) / 2)
    assert metrics["eval/accuracy/many"] == pytest.approx(0.02)
    assert metrics["eval/stderr"] > 0
    assert "eval/stderr" not in Account(Budget()).test({"": [0.0] * 9})
    alone = Account(Budget()).test({"": [1.0, 0.0]})
    assert [name for name in alone if name.startswith("eval/accuracy")] == ["eval/accuracy"]


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1))
def test_the_first_of_the_best_tests_is_remembered(accuracies):
    account = Account(Budget())
    for step, accuracy in enumerate(accuracies):
        account.step = step
        metrics = account.test({"": [accuracy]})
        assert account.improved == (accuracy > max(accuracies[:step], default=-1.0))
    assert metrics["eval/best"] == max(accuracies)
    assert metrics["eval/best_step"] == accuracies.index(max(accuracies))
    again = Account(Budget())
    again.load_state_dict(account.state_dict())
    assert (again.best, again.totals, again.elapsed) == (account.best, account.totals, 0.0)


def test_a_budget_of_tokens_alone_is_given_up_where_nothing_is_written():
    written, nothing = {"rollout/tokens": 1}, {"rollout/tokens": 0}
    account = Account(Budget(tokens=1000))
    for _ in range(IDLE - 1):
        account.count(nothing)
    account.count(written)
    for _ in range(IDLE - 1):
        account.count(nothing)
    with pytest.raises(MetisError, match=r"tokens = 1000: no token was generated in 100 steps"):
        account.count(nothing)
    read = Account(Budget(processed=1000))
    for _ in range(IDLE - 1):
        read.count(nothing)
    with pytest.raises(MetisError, match=r"processed = 1000: no token"):
        read.count(nothing)
    limited = Account(Budget(tokens=1000, seconds=1.0))
    for _ in range(2 * IDLE):
        limited.count(nothing)
