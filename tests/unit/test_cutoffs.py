"""Answers that end at the limit of their length are told of once, when they are most of many."""

from collections import Counter

from metis.cutoffs import STEPS, CutOffs


def counts(cut, generated=8):
    return Counter({"rollout/cut_off": cut, "rollout/generated": generated})


def test_most_answers_of_many_steps_are_told_of_once():
    cutoffs = CutOffs("engine.max_tokens = 64")
    said = [cutoffs.notices(counts(6)) for _ in range(3 * STEPS)]
    [notice] = said[STEPS - 1]
    assert notice.startswith("75% of the answers of the last 10 steps ended at engine.max_tokens")
    assert sum(map(len, said)) == 1


def test_half_of_them_or_old_ones_are_not():
    cutoffs = CutOffs("a limit")
    assert not any(cutoffs.notices(counts(8)) for _ in range(STEPS // 2))
    assert not any(cutoffs.notices(counts(0)) for _ in range(STEPS))
    assert not any(cutoffs.notices(counts(4)) for _ in range(2 * STEPS))


def test_steps_without_rollouts_say_nothing():
    cutoffs = CutOffs("a limit")
    assert not any(cutoffs.notices(counts(0, 0)) for _ in range(2 * STEPS))
