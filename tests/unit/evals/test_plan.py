"""Batches: every problem once, nothing over the limits, and seeds that depend on nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from metis.evals.plan import BatchLimits, batch_seed, batches, copies, in_order

LIMITS = st.builds(BatchLimits, st.integers(1, 40), st.integers(0, 5000))


@given(st.lists(st.integers(1, 900)), st.integers(1, 900), st.integers(1, 50), LIMITS)
def test_batches_hold_every_problem_once_within_the_limits(lengths, longest, samples, limits):
    planned = batches(lengths, longest, samples, limits)
    order = [place for batch in planned for place in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[place] for place in order] == sorted(lengths)
    for batch in planned:
        width = max(lengths[place] for place in batch) + longest
        assert len(batch) == 1 or limits.fit(width, len(batch) * samples)
        parts = copies(width, samples, limits)
        assert sum(parts) == samples and min(parts) >= 1
        assert all(limits.fit(width, len(batch) * part) for part in parts)


def test_a_batch_is_filled_before_the_next_begins():
    assert batches([10, 30, 20, 40], 100, 1, BatchLimits(rows=3, tokens=0)) == [[0, 2, 1], [3]]
    assert batches([10, 30, 20, 40], 100, 1, BatchLimits(rows=9, tokens=260)) == [[0, 2], [1], [3]]
    assert copies(100, 8, BatchLimits(rows=3, tokens=0)) == [2, 2, 2, 2]
    assert copies(100, 5, BatchLimits(rows=4, tokens=0)) == [3, 2]


@given(st.integers(0, 90), st.integers(1, 9), st.integers(1, 40))
def test_the_batches_of_training_hold_every_problem_in_its_order(count, samples, rows):
    planned = in_order(count, samples, rows)
    assert [place for batch in planned for place in batch] == list(range(count))
    assert all(len(batch) == max(1, rows // samples) for batch in planned[:-1])


def test_seeds_are_fixed_and_apart():
    seeds = {batch_seed(s, b, n) for s in range(3) for b in ("aime24", "math500") for n in range(9)}
    assert len(seeds) == 54 and all(0 <= seed < 2**31 for seed in seeds)
    assert batch_seed(0, "math500", 0) == 1_136_985_896
