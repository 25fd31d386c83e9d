import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from metis.view.glyphs import bar, clock, compact, sparkline, stacked


def spark(values, width=10, low=0.0, high=1.0):
    return sparkline(values, width, low, high, lambda value: "red" if value < 0 else "green")


def test_a_sparkline_has_a_cell_for_each_value_and_a_dot_for_none():
    assert spark([0.0, 0.5, None, 1.0]).plain == "▁▄·▇      "


def test_more_values_than_cells_are_averaged():
    assert spark([0.0, 0.2, None, None, 0.9, 0.9], width=3).plain == "▁·▇"


def test_values_out_of_range_stay_in_the_line_and_keep_their_style():
    line = spark([-1.0, 2.0], width=2)
    assert line.plain == "▁▇"
    assert [span.style for span in line.spans] == ["red", "green"]


@given(
    st.lists(st.none() | st.floats(-2, 2)), st.integers(0, 40), st.floats(-1, 0), st.floats(0.1, 1)
)
def test_a_sparkline_is_as_wide_as_it_should_be(values, width, low, high):
    assert len(spark(values, width, low, high)) == width


@pytest.mark.parametrize(
    ("fraction", "drawn"), [(-1, "────"), (0.125, "╸───"), (0.5, "━━──"), (1, "━━━━"), (7, "━━━━")]
)
def test_a_bar_grows_by_half_cells(fraction, drawn):
    assert bar(fraction, 4, "green").plain == drawn


def test_a_stacked_bar_is_cut_in_proportion():
    fills = {"judge": ("a", "red"), "rollout": ("b", "blue"), "update": ("c", "green")}
    assert stacked({"judge": 1.0, "rollout": 6.0, "update": 3.0}, 10, fills).plain == "abbbbbbccc"
    assert stacked({"judge": 0.0}, 4, fills).plain == "    "
    assert stacked({}, 4, fills).plain == Text("    ").plain


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=5), st.integers(0, 60))
def test_a_stacked_bar_is_as_wide_as_it_should_be(parts, width):
    named = {str(i): part for i, part in enumerate(parts)}
    assert len(stacked(named, width, dict.fromkeys(named, ("x", "")))) == width


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (9_999, "9,999"), (10_000, "10k"), (15_360, "15.4k"), (999_600, "1M"), (5e9, "5G")],
)
def test_long_numbers_are_shortened(number, text):
    assert compact(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (65, "1:05"), (7207, "2:00:07")]
)
def test_a_clock_has_hours_only_where_there_are_any(seconds, text):
    assert clock(seconds) == text
