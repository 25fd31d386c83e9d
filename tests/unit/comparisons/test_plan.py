"""Arms and seeds as they are written on a command line."""

import pytest

from metis import MetisError
from metis.comparisons.plan import Arm, parse_arms, parse_seeds


def test_curricula_and_settings_become_arms():
    assert parse_arms("uniform, metis", ["bold:curriculum=metis,task.levels=[1,2],steps=3"]) == [
        Arm("uniform", ("curriculum=uniform",)),
        Arm("metis", ("curriculum=metis",)),
        Arm("bold", ("curriculum=metis", "task.levels=[1,2]", "steps=3")),
    ]
    assert parse_arms("my.module:Mine", [])[0] == Arm("Mine", ("curriculum=my.module:Mine",))


@pytest.mark.parametrize(
    ("curricula", "arms", "words"),
    [
        ("uniform,uniform", [], "named twice"),
        ("", ["bold"], "write NAME:key=value"),
        ("", ["bold:explore"], "write NAME:key=value"),
        ("", ["a/b:steps=1"], "letters, digits"),
        ("", [":steps=1"], "letters, digits"),
    ],
)
def test_what_is_no_arm_is_refused(curricula, arms, words):
    with pytest.raises(MetisError, match=words):
        parse_arms(curricula, arms)


def test_seeds_are_numbers_and_ranges_of_them():
    assert parse_seeds("0,1,2") == parse_seeds("0-2") == [0, 1, 2]
    assert parse_seeds("3, 1-2,3") == [3, 1, 2]
    with pytest.raises(MetisError, match="the smaller first"):
        parse_seeds("3-1")
    for text in ("", "a", "1-", "-1", "1,,2"):
        with pytest.raises(MetisError, match="write numbers"):
            parse_seeds(text)
