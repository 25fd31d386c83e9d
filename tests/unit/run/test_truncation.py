"""Most answers ending at the limit of their length are told of once, in the step it happens."""

from collections import Counter

import pytest

from metis.run.truncation import Truncations


def counts(cut, generated=8):
    return Counter({"rollout/cut_off": cut, "rollout/generated": generated})


def test_the_first_step_with_most_answers_cut_off_is_told_of_once():
    truncations = Truncations("engine.max_tokens = 64")
    assert truncations.notices(counts(4)) == []
    [notice] = truncations.notices(counts(6))
    assert notice.startswith("75% of the answers (6 of 8) were truncated at engine.max_tokens = ")
    assert truncations.notices(counts(8)) == []


@pytest.mark.parametrize("generated", [0, 8])
def test_half_of_them_or_none_are_not(generated):
    assert Truncations("a limit").notices(counts(generated // 2, generated)) == []
