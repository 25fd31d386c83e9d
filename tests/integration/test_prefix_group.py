"""Rows are laid out within a budget, and in batches where that saves padding."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metis.engines.tokens import packing as layout
from metis.engines.tokens.packing import Layout, PrefixGroup, Row, Tree

LAYOUT = Layout(8, 1000)
LENGTHS = st.lists(st.integers(2, 900), min_size=1, max_size=60)


def rows(lengths, tree=True):
    shape = Tree(np.ones((1, 1), dtype=np.bool_), np.zeros(1, dtype=np.int64)) if tree else None
    nothing = np.zeros(0, dtype=np.int64)
    return [Row(np.arange(length), nothing, nothing, shape) for length in lengths]


@given(LENGTHS, st.booleans())
def test_strips_hold_all_rows_in_order_and_never_cost_more(lengths, ascending):
    group = PrefixGroup([1, 2], rows(sorted(lengths) if ascending else lengths), LAYOUT)
    batches = group.batches
    assert [row for batch in batches for row in batch.rows] == group.rows
    assert len(batches) <= layout.MOST_BATCHES
    assert all(len(row.tokens) <= batch.width for batch in batches for row in batch.rows)
    saved = group.whole.size - (group.size - len(group.prefix))
    assert saved >= (len(batches) - 1) * LAYOUT.spare
    assert all(batch.width % LAYOUT.aligned == 0 for batch in batches)


@given(LENGTHS, st.integers(1, 5000), st.booleans())
def test_parts_stay_within_the_budget(lengths, budget, tree):
    group = PrefixGroup([1, 2], rows(sorted(lengths), tree), LAYOUT)
    parts = list(group.split(budget))
    assert [row for part in parts for row in part.rows] == group.rows
    for part in parts:
        assert len(part.rows) == 1 or part.size - len(part.prefix) <= budget


def test_a_long_row_among_many_short_ones_stands_alone():
    group = PrefixGroup([1], rows([8] * 100 + [800]), LAYOUT)
    assert [(len(batch.rows), batch.width) for batch in group.batches] == [(100, 8), (1, 800)]
    assert PrefixGroup([1], group.rows).batches == [group.whole]
    assert PrefixGroup([], group.rows, LAYOUT).batches[0].width == 800
    assert PrefixGroup([1], rows([8] * 100 + [800], tree=False), LAYOUT).batches[0].width == 800


def test_little_padding_is_left_as_it_is():
    assert len(PrefixGroup([1], rows([8] * 100 + [16]), LAYOUT).batches) == 1


@given(LENGTHS, st.integers(1, 5000))
def test_packed_rows_have_no_padding(lengths, budget):
    group = PrefixGroup([], rows(sorted(lengths), tree=False), Layout(8, 1000, packed=True))
    parts = list(group.split(budget))
    assert sum(part.size for part in parts) == sum(lengths)
    for part in parts:
        assert len(part.rows) == 1 or part.size <= budget
        assert [list(batch.rows) for batch in part.batches] == [[row] for row in part.rows]
