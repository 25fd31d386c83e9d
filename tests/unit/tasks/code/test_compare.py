"""Equality of outputs and values: what counts as the same, whatever a program sends."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metis.tasks.code.compare import same_output, same_value
from metis.tasks.code.inside.plain import pack

SCALARS = st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.floats()
HASHABLE = st.recursive(SCALARS, lambda items: st.tuples(items, items), max_leaves=4)
VALUES = st.recursive(
    SCALARS,
    lambda items: (
        st.lists(items, max_size=3)
        | st.tuples(items, items)
        | st.frozensets(HASHABLE, max_size=3)
        | st.dictionaries(HASHABLE, items, max_size=3)
    ),
    max_leaves=6,
)
JSON = st.recursive(
    SCALARS.filter(lambda value: not isinstance(value, bytes)),
    lambda items: (
        st.lists(items) | st.dictionaries(st.sampled_from(["int", "list", "dict", "set"]), items)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("output", "expected", "same"),
    [
        ("1 2\n3", "1\n2 3\n", True),
        ("1 2", "1 2 3", False),
        ("0.3333334", "0.33333333", True),
        ("0.334", "0.33333333", False),
        ("1e6", "1000000.0", True),
        ("1.0", "1", False),
        ("nan", "0.5", False),
        ("inf", "1.5", False),
        ("1" * 10_000, "1.5", False),
        ("YES", "yes", False),
        ("", "", True),
    ],
)
def test_outputs_are_compared_by_tokens(output, expected, same):
    assert same_output(output, expected) is same


@pytest.mark.parametrize(
    ("value", "expected", "same"),
    [
        ([1, (2, 3)], (1, [2, 3]), True),
        ([1, 2], [2, 1], False),
        ({1, 2}, {2, 1}, True),
        ({1, 2}, [1, 2], False),
        ({(1, 2): "a", 3: [4]}, {3: [4], (1, 2): "a"}, True),
        ({1: 2}, {1: 3}, False),
        ({1.0: 2}, {1: 2}, True),
        (0.1 + 0.2, 0.3, True),
        (1, 1.0, True),
        (True, 1, True),
        ("1", 1, False),
        (None, False, False),
        (math.nan, math.nan, True),
        (10**400, 1.5, False),
        (1 + 2j, 1 + 2j, True),
        (range(3), range(3), True),
        ("a", b"a", False),
    ],
)
def test_values_are_compared_as_python_does_but_for_tuples_and_floats(value, expected, same):
    assert same_value(pack(value), expected) is same


@given(VALUES)
def test_a_value_equals_itself(value):
    assert same_value(pack(value), value)


@given(JSON, VALUES)
def test_no_message_raises(message, expected):
    assert same_value(message, expected) in (True, False)


def test_a_value_of_great_depth_is_no_other():
    deep = wanted = pack([])
    for _ in range(500):
        deep, wanted = {"list": [deep]}, {"list": [wanted]}
    assert not same_value(deep, [[]])


def test_a_deep_key_costs_no_more_than_its_depth():
    key = ()
    for _ in range(60):
        key = (key,)
    assert same_value(pack({key: 1, 2: {key}}), {key: 1, 2: {key}})
    assert not same_value(pack({key: 1}), {(): 1})
