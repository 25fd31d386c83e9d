"""The scales of the judge: targets keep the mean, and answers mean what they say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metis.curricula.judge.memory import Pair
from metis.curricula.judge.scale import GRID, PASSES, PASSES_AND_LENGTH, VARIANCE
from metis.curricula.judge.settings import Judge
from metis.curricula.judge.target import Target

SCALES = [VARIANCE, PASSES, PASSES_AND_LENGTH]
scales = pytest.mark.parametrize("scale", SCALES, ids=lambda scale: scale.name)


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


def test_passes_and_length_by_hand():
    """Of six recent outcomes, two are short, two medium and two long; 3 of 4 rollouts pass."""
    judge = Judge(scale="passes_length")
    memory = [Pair(0, str(i), 0.1875, 0.75, length=100.0 * i) for i in range(6)]
    target = Target.of(judge, "binary", memory)
    assert target.scale is PASSES_AND_LENGTH
    points = [target.point(pair) for pair in memory]
    assert points == [6, 6, 15, 15, 24, 24]
    assert [PASSES_AND_LENGTH.answer(point) for point in points[::2]] == [
        "6 short",
        "6 medium",
        "6 long",
    ]
    assert {PASSES_AND_LENGTH.rate(point) for point in points} == {0.75}
    between = target.point(Pair(0, "x", 0.1, 1 / 3, length=999.0))
    hot = np.flatnonzero(PASSES_AND_LENGTH.two_hot(between))
    assert [PASSES_AND_LENGTH.choices[i] for i in hot] == ["2 long", "3 long"]
    assert PASSES_AND_LENGTH.values == PASSES.values * 3
    assert Judge(scale="passes_length").scale_for("continuous") is VARIANCE


@given(mean=st.floats(0, 1), length=st.floats(0, 1e4))
def test_an_outcome_lies_between_answers_of_its_own_length(mean, length):
    memory = [Pair(0, str(i), 0.0, 0.0, length=10.0 * i) for i in range(9)]
    target = Target.of(Judge(scale="passes_length"), "binary", memory)
    hot = np.flatnonzero(target.scale.two_hot(target.point(Pair(0, "x", 0.1, mean, length=length))))
    assert len({target.scale.choices[i].split()[1] for i in hot}) == 1


def test_what_an_exemplar_is_labelled_with():
    assert VARIANCE.written(0.109375) == "0.109"
    assert (PASSES.written(2.6), PASSES_AND_LENGTH.written(20.6)) == ("3", "3 long")
    assert PASSES_AND_LENGTH.labels[-1] == "8 long" and VARIANCE.labels[-1] == "0.25"
