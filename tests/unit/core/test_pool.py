import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metis.core import Prompt
from metis.core.pool import Pool, Subset
from metis.errors import MetisError

deterministic = settings(derandomize=True, deadline=None)
CATEGORIES = ("algebra", "geometry")


def make_pool(size, seed=0):
    prompts = [Prompt(f"data:{i}", f"problem {i}", CATEGORIES[i % 3 == 0]) for i in range(size)]
    return Pool(prompts, seed=seed)


def ids(prompts):
    return [prompt.id for prompt in prompts]


SUBSETS = {"easy": (5, 0, 2), "hard": (1, 3), "none": ()}


def source(name):
    """Arguments to draw from a category, a subset or, without a name, the whole pool."""
    if name in SUBSETS:
        return {"among": Subset(name, np.array(SUBSETS[name], dtype=np.int64))}
    return {"category": name}


def perform(pool, operations):
    return [
        ids(pool.sample(count, **source(name), exclude=[pool.prompts[i] for i in banned]))
        for count, name, banned in operations
    ]


operations = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.sampled_from([None, *CATEGORIES, *SUBSETS]),
        st.sets(st.integers(0, 6), max_size=7),
    ),
    max_size=12,
)


@deterministic
@given(st.integers(1, 9), st.lists(st.integers(0, 9), max_size=20), st.integers(0, 3))
def test_every_epoch_visits_each_prompt_once_and_no_draw_repeats(size, counts, seed):
    pool = make_pool(size, seed)
    walked = []
    for count in counts:
        drawn = ids(pool.sample(count))
        assert len(drawn) == len(set(drawn)) == min(count, size)
        walked += drawn
    everything = set(ids(pool.prompts))
    for start in range(0, len(walked) - size + 1, size):
        assert set(walked[start : start + size]) == everything


def test_every_epoch_has_its_own_order():
    pool = make_pool(50)
    assert ids(pool.sample(50)) != ids(pool.sample(50))


def test_another_seed_gives_another_order_of_the_same_prompts():
    first, same, other = make_pool(50, 1), make_pool(50, 1), make_pool(50, 2)
    order = ids(first.sample(50))
    assert order == ids(same.sample(50))
    different = ids(other.sample(50))
    assert order != different
    assert sorted(order) == sorted(different)
    assert first.fingerprint == other.fingerprint


def test_excluded_prompts_come_first_in_the_next_draw():
    order = make_pool(6).sample(6)
    pool = make_pool(6)
    assert pool.sample(2, exclude=order[:2]) == order[2:4]
    assert pool.sample(3) == [*order[:2], order[4]]
    assert pool.sample(1) == [order[5]]


def test_prompts_passed_over_wait_their_turn_until_they_are_drawn():
    order = make_pool(6).sample(6)
    pool = make_pool(6)
    assert pool.sample(1, exclude=order[:3]) == [order[3]]
    assert pool.sample(1, exclude=order[:1]) == [order[1]]
    assert [pool.sample(1) for _ in range(4)] == [[order[i]] for i in (0, 2, 4, 5)]


def test_a_prompt_that_is_always_excluded_is_passed_over_without_piling_up():
    pool = make_pool(4)
    banned = pool.prompts[:1]
    for _ in range(5):
        assert sorted(ids(pool.sample(3, exclude=banned))) == ["data:1", "data:2", "data:3"]
    assert pool.state_dict()["streams"][0][1]["deferred"].count(0) == 1


@deterministic
@given(operations)
def test_draws_are_distinct_respect_exclude_and_are_short_only_when_the_pool_is(plan):
    pool = make_pool(7)
    for (count, name, banned), drawn in zip(plan, perform(pool, plan), strict=True):
        allowed = {
            prompt.id
            for i, prompt in enumerate(pool.prompts)
            if i not in banned
            and (i in SUBSETS[name] if name in SUBSETS else name in (None, prompt.category))
        }
        assert set(drawn) <= allowed
        assert len(drawn) == len(set(drawn)) == min(count, len(allowed))


@deterministic
@given(operations, st.integers(0, 9), st.sampled_from([None, *CATEGORIES, *SUBSETS]))
def test_a_draw_that_finds_everything_banned_leaves_the_walk_where_it_is(plan, count, name):
    pool = make_pool(7)
    perform(pool, plan)
    pool.sample(0, **source(name))
    before = pool.state_dict()
    assert pool.sample(count, **source(name), exclude=pool.prompts) == []
    assert pool.state_dict() == before


@deterministic
@given(st.integers(0, 7), st.sets(st.integers(0, 6)))
def test_an_epoch_ends_only_for_a_prompt_that_is_free_and_was_visited(first, banned):
    pool = make_pool(7)
    visited = {prompt.id for prompt in pool.sample(first)}
    excluded = [pool.prompts[i] for i in banned]
    free = {prompt.id for prompt in pool.prompts if prompt not in excluded}
    pool.sample(7, exclude=excluded)
    assert pool.epoch == (1 if visited & free else 0)


def test_excluding_a_prompt_of_another_pool_changes_nothing():
    assert make_pool(5).sample(5, exclude=[Prompt("elsewhere:0", "")]) == make_pool(5).sample(5)


def test_category_draws_stay_in_the_category_and_leave_the_whole_pool_alone():
    pool = make_pool(9)
    drawn = pool.sample(3, category="geometry")
    assert sorted(ids(drawn)) == ["data:0", "data:3", "data:6"]
    assert len(pool.sample(99, category="algebra")) == 6
    assert pool.sample(9) == make_pool(9).sample(9)
    assert list(pool.categories) == ["algebra", "geometry"]


@deterministic
@given(
    st.integers(1, 9).flatmap(lambda size: st.lists(st.integers(0, size - 1), unique=True)),
    st.lists(st.integers(0, 9), max_size=20),
)
def test_every_epoch_of_a_subset_visits_each_of_its_prompts_once(members, counts):
    pool, subset = make_pool(9), Subset("mine", np.array(members, dtype=np.int64))
    walked = []
    for count in counts:
        drawn = ids(pool.sample(count, among=subset))
        assert len(drawn) == len(set(drawn)) == min(count, len(members))
        walked += drawn
    everything = {f"data:{i}" for i in members}
    for start in range(0, len(walked) - len(members) + 1, max(1, len(members))):
        assert set(walked[start : start + len(members)]) == everything


def test_subsets_are_walked_apart_from_each_other_and_from_the_pool():
    pool = make_pool(9)
    alone = perform(make_pool(9), [(2, "easy", ()), (2, "easy", ())])
    mixed = perform(pool, [(2, "easy", ()), (1, "hard", ()), (4, None, ()), (2, "easy", ())])
    assert [mixed[0], mixed[3]] == alone
    assert pool.sample(5) == make_pool(9).sample(9)[4:]


def test_a_loaded_walk_waits_for_its_subset_and_outlives_another_save():
    pool = make_pool(9)
    perform(pool, [(2, "easy", ()), (1, "hard", ())])
    saved = json.loads(json.dumps(pool.state_dict()))
    resumed = make_pool(9)
    resumed.load_state_dict(saved)
    assert resumed.state_dict() == saved
    assert perform(resumed, [(1, "hard", ())]) == perform(pool, [(1, "hard", ())])
    again = make_pool(9)
    again.load_state_dict(json.loads(json.dumps(resumed.state_dict())))
    assert perform(again, [(3, "easy", ())]) == perform(pool, [(3, "easy", ())])


def test_a_state_from_before_there_were_subsets_is_loaded():
    pool = make_pool(6)
    order = pool.sample(2)
    saved = pool.state_dict()
    del saved["subsets"]
    resumed = make_pool(6)
    resumed.load_state_dict(saved)
    assert [*order, *resumed.sample(4)] == make_pool(6).sample(6)


@pytest.mark.parametrize("members", [[0, 0], [0, 9], [-1]])
def test_a_subset_holds_distinct_positions_of_the_pool(members):
    with pytest.raises(ValueError, match="'mine' must hold distinct positions"):
        make_pool(9).sample(1, among=Subset("mine", np.array(members)))


def test_a_subset_keeps_its_members_and_excludes_a_category():
    pool = make_pool(9)
    pool.sample(1, among=Subset("mine", np.array([0, 1])))
    with pytest.raises(ValueError, match="'mine' stood for other prompts"):
        pool.sample(1, among=Subset("mine", np.array([0, 2])))
    with pytest.raises(ValueError, match="not both"):
        pool.sample(1, category="algebra", among=Subset("mine", np.array([0, 1])))


def test_short_and_empty_pools_give_what_they_have():
    assert sorted(ids(make_pool(2).sample(5))) == ["data:0", "data:1"]
    assert make_pool(0).sample(5) == []
    pool = make_pool(3)
    assert pool.sample(2, exclude=pool.prompts) == []
    assert len(pool.sample(3)) == 3


def test_the_pool_counts_its_epochs():
    pool = make_pool(5)
    epochs = []
    for _ in range(6):
        pool.sample(2)
        pool.sample(1, category="algebra")
        epochs.append(pool.epoch)
    assert epochs == [0, 0, 1, 1, 1, 2]
    assert make_pool(0).epoch == 0


def test_prompts_are_found_by_their_id():
    pool = make_pool(3)
    assert len(pool) == 3
    assert "data:1" in pool
    assert "data:3" not in pool
    assert pool["data:1"].text == "problem 1"


def test_duplicate_ids_are_refused_by_name():
    with pytest.raises(MetisError, match="'twice:7' occurs twice"):
        Pool([Prompt("once:1", ""), Prompt("twice:7", "one"), Prompt("twice:7", "other")])


@deterministic
@given(operations, operations, st.integers(0, 3))
def test_a_loaded_pool_goes_on_as_the_uninterrupted_one(before, after, seed):
    uninterrupted, interrupted, resumed = (make_pool(7, seed) for _ in range(3))
    perform(uninterrupted, before)
    perform(interrupted, before)
    perform(resumed, after)
    resumed.load_state_dict(json.loads(json.dumps(interrupted.state_dict())))
    assert perform(resumed, after) == perform(uninterrupted, after)


def test_a_saved_state_is_not_changed_by_later_draws():
    pool = make_pool(6)
    pool.sample(4, exclude=pool.prompts[:2])
    state = pool.state_dict()
    saved = json.dumps(state)
    pool.sample(5, exclude=pool.prompts[2:4])
    assert json.dumps(state) == saved


def test_the_state_does_not_grow_with_the_pool():
    def saved(size):
        pool = make_pool(size)
        for _ in range(3):
            pool.sample(30, exclude=pool.sample(2, category="algebra"))
        return len(json.dumps(pool.state_dict()))

    assert saved(20_000) <= saved(200) + 40


@pytest.mark.parametrize("other", [make_pool(5), Pool(reversed(make_pool(6).prompts))])
def test_the_state_of_other_data_is_refused(other):
    pool = make_pool(6)
    with pytest.raises(MetisError, match=other.fingerprint):
        pool.load_state_dict(other.state_dict())
