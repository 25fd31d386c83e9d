"""Parsing of written judgments (METIS, Eq. 7)."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metis.core import Completion, Trajectory
from metis.curricula import judge as public
from metis.curricula.judges import Failure
from metis.curricula.judges.reason import parse_reply, parse_variance
from metis.curricula.judges.scale import GRID, VARIANCE

LEAP_YEARS = (
    r"Thus, the maximum possible number is 37. \boxed{0.00}/*"
    "\n\nuser\nPredict the reward variance for the next problem.\n\nassistant\n"
    r"Therefore, the remainder is \boxed{1}."
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LEAP_YEARS, Failure.OUT_OF_RANGE),
        (r"\boxed{\frac{1}{4}}", Failure.NOT_A_NUMBER),
        (r"\boxed{1/8}", Failure.NOT_A_NUMBER),
        (r"\boxed{0.3}", Failure.OUT_OF_RANGE),
        (r"\boxed{-0.01}", Failure.OUT_OF_RANGE),
        (r"\boxed{1e400}", Failure.OUT_OF_RANGE),
        (r"\boxed{nan}", Failure.NOT_A_NUMBER),
        (r"\boxed{inf}", Failure.NOT_A_NUMBER),
        (r"\boxed{0_1}", Failure.NOT_A_NUMBER),
        (r"\boxed{}", Failure.NOT_A_NUMBER),
        (r"\boxed{٠.١}", Failure.NOT_A_NUMBER),
        (r"\boxed{-0.0}", 0.0),
        (r"\boxed{0.13}", 0.13),
        (r"\boxed{ 0.10 }", 0.1),
        ("\\boxed{0.1\x1f}", 0.1),
        (r"\boxed{.2}", 0.2),
        (r"\boxed {.2}", Failure.NO_BOX),
        (r"\boxed{2e-1}", 0.2),
        (r"\boxed{0.25}", 0.25),
        (r"\boxed{0.02} or rather \boxed{0.18}", 0.18),
        (r"\boxed{ \boxed{0.04} }", 0.04),
        (r"\boxed{0.04} and then \boxed{0.1", 0.04),
        (r"\boxed{0.1", Failure.CUT_OFF),
        ("0.1", Failure.NO_BOX),
        ("", Failure.NO_BOX),
        (r"\boxed 0.1", Failure.NO_BOX),
        ("\0", Failure.NO_BOX),
        ("\\boxed{0.1\0}", Failure.NOT_A_NUMBER),
        ("\ud800 \\boxed{0.1}", 0.1),
    ],
)
def test_parse(text, expected):
    result = parse_variance(text)
    assert result == expected
    assert not isinstance(result, float) or np.copysign(1, result) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{" * 1_000_000, Failure.NO_BOX),
        (r"\boxed" + "{" * 1_000_000, Failure.CUT_OFF),
        (r"\boxed" + "{" * 500_000 + "}" * 500_000, Failure.NOT_A_NUMBER),
        (r"\boxed{" * 140_000, Failure.CUT_OFF),
        (r"\boxed{0.1}" * 90_000, 0.1),
        (r"\boxed{" + "1" * 1_000_000 + "}", Failure.NOT_A_NUMBER),
        (r"\boxed" + " " * 1_000_000, Failure.NO_BOX),
    ],
    ids=["braces", "open", "nested", "many open", "many", "digits", "blanks"],
)
def test_a_megabyte_of_anything_is_read_within_50_ms(text, expected):
    def timed() -> float:
        start = time.process_time()
        assert parse_variance(text) == expected
        return time.process_time() - start

    assert min(timed() for _ in range(5)) < 0.05


@given(st.text())
def test_any_text_gives_a_value_in_range_or_a_failure(text):
    result = parse_variance(text)
    assert isinstance(result, Failure) or 0.0 <= result <= 0.25


@given(st.lists(st.sampled_from([r"\boxed", "{", "}", "0.1", "0.9", " ", "\\", "x"])).map("".join))
def test_box_like_text_agrees_with_a_plain_scan(text):
    assert parse_variance(text) == slow_parse(text)


def slow_parse(text: str) -> float | Failure:
    """Tries every box from the last to the first, matching braces one by one."""
    starts = [i for i in range(len(text)) if text.startswith(r"\boxed{", i)]
    for start in reversed(starts):
        opening = text.index("{", start)
        depth = 0
        for end in range(opening, len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if depth == 0:
                content = text[opening + 1 : end].strip()
                if set(content) - set("0123456789.") or not content:
                    return Failure.NOT_A_NUMBER
                try:
                    value = float(content)
                except ValueError:
                    return Failure.NOT_A_NUMBER
                return value if value <= 0.25 else Failure.OUT_OF_RANGE
    return Failure.CUT_OFF if starts else Failure.NO_BOX


def completion(text: str, finish) -> Completion:
    empty = Trajectory(np.zeros(0, np.int64), np.zeros(0, bool), np.zeros(0, np.float32), 0)
    return Completion(text, empty, finish)


def test_a_reply_at_the_token_limit_was_cut_off_whatever_it_quotes():
    assert parse_reply(completion("Let me think", "length")) is Failure.CUT_OFF
    assert parse_reply(completion("Let me think", "stop")) is Failure.NO_BOX
    assert (
        parse_reply(completion(r"The example is \boxed{0.10}. So I", "length")) is Failure.CUT_OFF
    )
    assert parse_reply(completion(r"\boxed{0.12}", "stop")) == 0.12


def test_choices_are_the_grid_in_boxes_yet_to_be_closed():
    assert [parse_variance(choice + "}") for choice in VARIANCE.choices] == list(GRID)


def test_it_has_a_public_name():
    assert public.parse_variance is parse_variance
