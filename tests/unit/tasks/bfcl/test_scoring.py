"""The reward by hand."""

from collections import Counter

import pytest

from metis.tasks.bfcl.scoring import Record, Turn, focused, matched

RIGHT, IDLE = Turn(False, True), Turn(False, False)
ABSTAINED, CALLED = Turn(True, False), Turn(True, True)
GARBLED = Turn(True, False, garbled=True)


def test_half_of_a_turn_is_its_state_and_half_its_results():
    assert RIGHT.score == 1.0
    assert Turn(False, True, same=False).score == 0.5
    assert Turn(False, True, matched=0.5).score == 0.75
    assert Turn(False, True, same=False, matched=0.0).score == 0.0
    assert IDLE.score == 0.0


def test_a_state_that_nobody_changed_earns_nothing_beside_wrong_results():
    assert Turn(False, True, matched=0.0, idle=True).score == 0.0
    assert Turn(False, True, matched=0.5, idle=True).score == 0.75
    assert Turn(False, True, matched=0.0, idle=False).score == 0.5, "changed in another way"


def test_results_count_less_in_a_turn_of_many_more_calls_than_are_needed():
    assert [focused(made, 4, 8) for made in (0, 1, 12, 24)] == [1.0, 1.0, 1.0, 0.5]
    assert focused(64, 4, 0) == 1.0
    assert Turn(False, True, focus=0.5).score == 0.75, "the state was changed"
    assert Turn(False, True, idle=True, focus=0.5).score == 0.5
    assert Turn(False, True, focus=0.5).valid


def test_results_count_as_often_as_they_are_expected():
    assert matched(["a", "a", "b"], Counter("bac")) == pytest.approx(2 / 3)
    assert matched([], Counter("a")) == 1.0


@pytest.mark.parametrize(
    ("turns", "earned", "always", "ignored"),
    [
        ([RIGHT, ABSTAINED], 1.0, 1.0, 1.0),
        ([RIGHT, CALLED], 0.5, 0.5, 1.0),
        ([RIGHT, GARBLED], 0.5, 0.5, 1.0),
        ([IDLE, ABSTAINED], 0.0, 0.5, 0.0),
        ([RIGHT], 0.5, 0.5, 1.0),
        ([], 0.0, 0.0, 0.0),
    ],
)
def test_abstention_pays_only_beside_something_that_was_done(turns, earned, always, ignored):
    record = Record([False, True], turns)
    assert record.reward("earned") == earned
    assert record.reward("always") == always
    assert record.reward("ignored") == ignored


def test_the_verdict_is_all_or_nothing_and_overlooks_abstention():
    assert Record([False, True], [RIGHT, CALLED]).valid
    assert Record([False, True], [RIGHT, GARBLED]).valid
    assert not Record([False, False], [RIGHT]).valid
    assert not Record([False], [IDLE]).valid
    assert not Record([False], [Turn(False, True, matched=0.5)]).valid
    assert not Record([False], [RIGHT], stuck=True).valid
