"""Calls that are abandoned while they wait, before they do, and never."""

import pytest

from metis.tasks.abandonment import AbandonableCall, Abandoned, current, this_call


def test_what_is_waited_for_is_ended_once_and_the_call_with_it():
    call, ended = AbandonableCall(), []
    with pytest.raises(Abandoned), call.ended_by(lambda: ended.append(1)):
        call.abandon()
    call.abandon()
    assert ended == [1]


def test_an_abandoned_call_waits_for_nothing_more():
    call = AbandonableCall()
    call.abandon()
    with pytest.raises(Abandoned), call.ended_by(list):
        pytest.fail("it was let in")
    with pytest.raises(Abandoned, match="late"):
        call.require_wanted()


def test_a_call_that_is_wanted_keeps_its_own_failure():
    with pytest.raises(KeyError), AbandonableCall().ended_by(list):
        raise KeyError


def test_outside_of_calls_nothing_is_abandoned():
    this_call().abandon()
    this_call().require_wanted()
    call = AbandonableCall()
    token = current.set(call)
    assert this_call() is call
    current.reset(token)
