"""Variants and seeds as they are written on a command line."""

import pytest

from metis import MetisError
from metis.comparisons.plan import Variant, parse_seeds, parse_variants


def test_curricula_and_settings_become_variants():
    assert parse_variants(
        "uniform, metis", ["bold:curriculum=metis,task.levels=[1,2],steps=3"]
    ) == [
        Variant("uniform", ("curriculum=uniform",)),
        Variant("metis", ("curriculum=metis",)),
        Variant("bold", ("curriculum=metis", "task.levels=[1,2]", "steps=3")),
    ]
    assert parse_variants("my.module:Mine", [])[0] == Variant(
        "Mine", ("curriculum=my.module:Mine",)
    )


@pytest.mark.parametrize(
    ("curricula", "variants", "words"),
    [
        ("uniform,uniform", [], "named twice"),
        ("", ["bold"], "write NAME:key=value"),
        ("", ["bold:explore"], "write NAME:key=value"),
        ("", ["a/b:steps=1"], "letters, digits"),
        ("", [":steps=1"], "letters, digits"),
    ],
)
def test_what_is_no_variant_is_refused(curricula, variants, words):
    with pytest.raises(MetisError, match=words):
        parse_variants(curricula, variants)


def test_seeds_are_numbers_and_ranges_of_them():
    assert parse_seeds("0,1,2") == parse_seeds("0-2") == [0, 1, 2]
    assert parse_seeds("3, 1-2,3") == [3, 1, 2]
    with pytest.raises(MetisError, match="the smaller first"):
        parse_seeds("3-1")
    for text in ("", "a", "1-", "-1", "1,,2"):
        with pytest.raises(MetisError, match="write numbers"):
            parse_seeds(text)
