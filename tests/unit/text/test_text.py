"""Text that others wrote: nothing in it is obeyed, and its last box is found."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from metis.text import NEAR, _last_closed, last_box, markdown_table, printable

OBEYED = "\x1b[2J\x1b]0;title\x07\x9b31m\r\x08\x7f\u202egnp.exe\u2066"


def test_what_a_terminal_obeys_is_written_out():
    assert printable("\x1b[31m\u202e") == "\\x1b[31m\\u202e"
    assert printable("two\n\tlines, ä, 😀, עברית") == "two\n\tlines, ä, 😀, עברית"


@given(st.text())
def test_no_control_character_is_left_and_safe_text_is_the_same(text):
    made = printable(text)
    assert all(unicodedata.category(letter) != "Cc" for letter in made if letter not in "\n\t")
    assert printable(made) == made


def test_a_cell_of_a_table_is_one_safe_line():
    lines = markdown_table([["name"], [f"a\n|{OBEYED}"]]).splitlines()
    assert len(lines) == 3 and "\x1b" not in lines[2] and "\\|" in lines[2]


PIECES = st.lists(st.sampled_from(["\\boxed{", "{", "}", "a", "é", "\n"]), max_size=30).map("".join)


@given(PIECES)
def test_near_and_far_agree(text):
    assert last_box(text) == _last_closed(text)
    assert last_box("\\boxed{" + "x" * NEAR + text) == _last_closed("\\boxed{" + "x" * NEAR + text)


def test_a_box_that_ends_far_away_is_found():
    assert last_box("\\boxed{" + "x" * 3 * NEAR + "}") == "x" * 3 * NEAR
    assert last_box("\\boxed{1} \\boxed{" + "{" * NEAR) == "1"
