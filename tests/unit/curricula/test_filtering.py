"""Notices of short batches, by the methods that filter by rollouts."""

from metis.curricula.filtering import EMPTY, FULL, SHORT, shortage


def test_a_shortage_is_told_when_it_gets_worse():
    assert shortage(8, 8, FULL, "why") == (FULL, [])
    assert shortage(7, 8, FULL, "why") == (SHORT, ["why: training on 7 of 8 groups"])
    assert shortage(6, 8, SHORT, "why") == (SHORT, [])
    assert shortage(0, 8, SHORT, "why") == (EMPTY, ["why: no update"])
    assert shortage(0, 8, EMPTY, "why") == (EMPTY, [])
    assert shortage(3, 8, EMPTY, "why") == (SHORT, [])
    assert shortage(4, 8, FULL, "why", enough=0.5) == (FULL, [])
    assert shortage(3, 8, FULL, "why", enough=0.5)[0] == SHORT
