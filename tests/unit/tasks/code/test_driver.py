"""The watch over a test: the limit that ended it is named."""

import os
import time

import pytest

from metis.tasks.code.inside.driver import Run

LIMITS = {"wall_seconds": 1, "output_kb": 1}


@pytest.fixture
def silent():
    """A descriptor on which nothing ever comes."""
    pipe = os.pipe()
    yield pipe[0]
    for descriptor in pipe:
        os.close(descriptor)


@pytest.mark.parametrize(("excess", "reason"), [("files", "files"), ("", "timeout")])
def test_a_limit_that_was_passed_is_named_though_time_ran_out_unseen(silent, excess, reason):
    class Stalled(Run):
        def _excess(self):
            return excess

    run = Stalled({}, LIMITS, control=silent, answer=-1)
    run.out = run.up = run.ended = silent
    assert run._watch(start=time.monotonic() - 2 * LIMITS["wall_seconds"]) == reason
