"""The last box: the quick look near its start finds what the whole text says."""

from hypothesis import given
from hypothesis import strategies as st

from metis.boxed import NEAR, _last_closed, last_box

PIECES = st.lists(st.sampled_from(["\\boxed{", "{", "}", "a", "é", "\n"]), max_size=30).map("".join)


@given(PIECES)
def test_near_and_far_agree(text):
    assert last_box(text) == _last_closed(text)
    assert last_box("\\boxed{" + "x" * NEAR + text) == _last_closed("\\boxed{" + "x" * NEAR + text)


def test_a_box_that_ends_far_away_is_found():
    assert last_box("\\boxed{" + "x" * 3 * NEAR + "}") == "x" * 3 * NEAR
    assert last_box("\\boxed{1} \\boxed{" + "{" * NEAR) == "1"
