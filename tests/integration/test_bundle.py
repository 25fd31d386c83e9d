"""Rows are laid out within a budget, and in strips where that saves padding."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metis.engines.tokens import packing as layout
from metis.engines.tokens.packing import Bundle, Layout, Row, Tree

LAYOUT = Layout(8, 1000)
LENGTHS = st.lists(st.integers(2, 900), min_size=1, max_size=60)


def rows(lengths, tree=True):
    shape = Tree(np.ones((1, 1), dtype=np.bool_), np.zeros(1, dtype=np.int64)) if tree else None
    nothing = np.zeros(0, dtype=np.int64)
    return [Row(np.arange(length), nothing, nothing, shape) for length in lengths]


@given(LENGTHS, st.booleans())
def test_strips_hold_all_rows_in_order_and_never_cost_more(lengths, ascending):
    bundle = Bundle([1, 2], rows(sorted(lengths) if ascending else lengths), LAYOUT)
    strips = bundle.strips
    assert [row for strip in strips for row in strip.rows] == bundle.rows
    assert len(strips) <= layout.STRIPS
    assert all(len(row.tokens) <= strip.width for strip in strips for row in strip.rows)
    saved = bundle.whole.size - (bundle.size - len(bundle.prefix))
    assert saved >= (len(strips) - 1) * LAYOUT.spare
    assert all(strip.width % LAYOUT.aligned == 0 for strip in strips)


@given(LENGTHS, st.integers(1, 5000), st.booleans())
def test_parts_stay_within_the_budget(lengths, budget, tree):
    bundle = Bundle([1, 2], rows(sorted(lengths), tree), LAYOUT)
    parts = list(bundle.split(budget))
    assert [row for part in parts for row in part.rows] == bundle.rows
    for part in parts:
        assert len(part.rows) == 1 or part.size - len(part.prefix) <= budget


def test_a_long_row_among_many_short_ones_stands_alone():
    bundle = Bundle([1], rows([8] * 100 + [800]), LAYOUT)
    assert [(len(strip.rows), strip.width) for strip in bundle.strips] == [(100, 8), (1, 800)]
    assert Bundle([1], bundle.rows).strips == [bundle.whole]
    assert Bundle([], bundle.rows, LAYOUT).strips[0].width == 800
    assert Bundle([1], rows([8] * 100 + [800], tree=False), LAYOUT).strips[0].width == 800


def test_little_padding_is_left_as_it_is():
    assert len(Bundle([1], rows([8] * 100 + [16]), LAYOUT).strips) == 1
