"""The scales of the judge: targets keep the mean, and answers mean what they say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metis.curricula.judges.scale import GRID, PASSES, VARIANCE

scales = pytest.mark.parametrize("scale", [VARIANCE, PASSES], ids=lambda scale: scale.name)


@scales
@given(share=st.floats(0, 1))
def test_a_two_hot_target_has_the_outcome_as_its_mean(scale, share):
    point = share * scale.points[-1]
    target = scale.two_hot(point)
    assert target.sum() == pytest.approx(1.0) and (target >= 0).all()
    assert target @ np.array(scale.points) == pytest.approx(point, abs=1e-12)
    hot = np.flatnonzero(target)
    assert len(hot) <= 2 and np.ptp(hot) <= 1


def test_two_hot_by_hand():
    assert VARIANCE.two_hot(0.109375)[[5, 6]] == pytest.approx([0.53125, 0.46875])
    assert PASSES.two_hot(8 * 0.75).tolist() == [0, 0, 0, 0, 0, 0, 1, 0, 0]
    assert PASSES.two_hot(8 / 3)[[2, 3]] == pytest.approx([1 / 3, 2 / 3])  # 1 of 3 rollouts passed


@scales
def test_points_beyond_the_scale_are_put_at_its_end(scale):
    assert scale.two_hot(99.0)[-1] == 1.0 and scale.two_hot(-1.0)[0] == 1.0


def test_the_answers_of_a_scale():
    assert VARIANCE.values == GRID and VARIANCE.answer(0.109375) == r"\boxed{0.10}"
    assert PASSES.choices == tuple("012345678") and PASSES.answer(2.6) == "3"
    assert PASSES.values == tuple(k / 8 * (1 - k / 8) for k in range(9))


def test_the_answers_as_a_log_names_them():
    assert (VARIANCE.labels[-1], PASSES.labels[-1]) == ("0.25", "8")
