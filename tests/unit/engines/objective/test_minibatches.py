"""No judgment is left out: each is in one mini-batch, as even as they can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metis import Batch, Group, Prompt
from metis.core import Continuation, Judgment
from metis.engines.objective.minibatches import split_minibatches

PROMPTS = [Prompt(f"p{i}", "") for i in range(12)]


def row(prompt, key=""):
    return Judgment(prompt, Continuation([], "0", -1.0), 1.0, key=key)


def group(prompt):
    return Group(prompt, (), (), failed=2)


def test_a_judgment_goes_with_its_group_and_others_are_dealt_evenly():
    groups = [group(prompt) for prompt in PROMPTS[:5]]
    fresh = [row(prompt) for prompt in PROMPTS[:5] for _ in range(2)]
    replayed = [row(prompt, "step 1") for prompt in (PROMPTS[0], *PROMPTS[5:10]) for _ in range(2)]
    shares = split_minibatches(Batch(groups, [*fresh, *replayed]), 2)
    assert [len(share.groups) for share in shares] == [2, 2, 1]
    assert [len(share.judgments) for share in shares] == [2 + 2, 2 + 2, 1 + 2]
    assert all(len(rows) == 2 for share in shares for rows in share.judgments)
    for share in shares:
        home = {group.prompt.id for group in share.groups}
        own = {rows[0].prompt.id for rows in share.judgments if not rows[0].key}
        assert own == home


def test_one_mini_batch_takes_all():
    batch = Batch([group(PROMPTS[0])], [row(PROMPTS[0]), row(PROMPTS[0], "again"), row(PROMPTS[7])])
    [share] = split_minibatches(batch, 0)
    assert len(share.judgments) == 3
    assert split_minibatches(Batch([], [row(PROMPTS[0])]), 0) == []


def test_a_group_of_rewards_alone_is_not_updated_on():
    with pytest.raises(ValueError, match="'p1' has rewards alone: an update needs trajectories"):
        split_minibatches(Batch([group(PROMPTS[0]), Group(PROMPTS[1], (0.0, 1.0))]), 0)


@given(
    st.integers(1, 8),
    st.integers(0, 9),
    st.lists(st.tuples(st.integers(0, 11), st.sampled_from(["", "a", "b"]))),
)
def test_every_judgment_reaches_exactly_one_mini_batch(count, size, made):
    groups = [group(prompt) for prompt in PROMPTS[:count]]
    rows = [row(PROMPTS[i], key) for i, key in made]
    shares = split_minibatches(Batch(groups, rows), size)
    dealt = [id(row) for share in shares for rows in share.judgments for row in rows]
    assert sorted(dealt) == sorted(map(id, rows))
    free = [
        sum(bool(rows[0].key) or rows[0].prompt.id not in homes for rows in share.judgments)
        for share in shares
        for homes in [{group.prompt.id for group in groups}]
    ]
    assert max(free) - min(free) <= 1
