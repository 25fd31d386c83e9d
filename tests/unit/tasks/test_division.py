"""The division of problems into those to train on and those to test on."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metis.errors import MetisError
from metis.tasks.division import divided

NUMBERS = st.lists(st.integers(0, 40), min_size=1, max_size=30)


def last_digit(number):
    return number % 10


@given(NUMBERS, st.none() | NUMBERS, st.integers(1, 30), st.integers(0, 3))
def test_none_is_trained_on_that_has_the_key_of_one_to_test_on(problems, others, heldout, seed):
    try:
        training, tested = divided(
            list(problems), others and list(others), heldout, seed, last_digit
        )
    except MetisError:
        return
    assert training and tested and len(tested) <= heldout
    assert not {last_digit(x) for x in training} & {last_digit(x) for x in tested}
    assert set(training) <= set(problems)
    assert set(tested) <= set(problems if others is None else others)


def test_a_seed_divides_once_and_for_all():
    same, again, other = (
        divided(list(range(20)), None, 5, seed, lambda number: number) for seed in (1, 1, 2)
    )
    assert same == again != other
    assert sorted(same[0] + same[1]) == list(range(20))


def test_all_of_another_file_is_tested_on_unless_fewer_are_asked_for():
    _, tested = divided([1, 2], [3, 4, 5], 0, 0, lambda number: number)
    assert sorted(tested) == [3, 4, 5]


def test_nothing_left_to_train_on_is_refused():
    message = "task.heldout = 2: 0 dialogues are left to train on and 2 to test on"
    with pytest.raises(MetisError, match=re.escape(message)):
        divided([1, 2], None, 2, 0, lambda number: number, "dialogues")
