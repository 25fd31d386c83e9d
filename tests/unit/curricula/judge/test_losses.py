"""The judge's losses: their rows have the gradients they are named after."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metis.curricula.judge.judgment import Scored, _weigh
from metis.curricula.judge.losses import learn, subsample
from metis.curricula.judge.scale import PASSES, VARIANCE

from metis import MetisError, Prompt
from metis.curricula.judge import Judge

CHAT = [{"role": "user", "content": "?"}]
draw = np.random.default_rng(0)


def verdict(scale, offsets=(), name="a"):
    logprobs = draw.normal(-3, 2, len(scale.choices)).tolist()
    [made] = _weigh(scale, tuple(offsets), [Prompt(name, "?")], [CHAT], [logprobs], None)
    return made


@pytest.mark.parametrize("scale", [VARIANCE, PASSES], ids=lambda scale: scale.name)
@pytest.mark.parametrize("offset", [False, True])
def test_log_score_has_the_gradient_of_the_cross_entropy(scale, offset):
    offsets = draw.normal(0, 1, len(scale.choices)).tolist() if offset else ()
    point = 0.37 * scale.points[-1]
    said = verdict(scale, offsets)
    rows, metrics = learn(Judge(), [Scored(said, 0.1, 0.1, point, True)], None, "last")
    target, shift = scale.two_hot(point), np.array(offsets or [0.0] * len(scale.choices))

    def cross_entropy(logprobs):
        logits = logprobs + shift
        return -target @ (logits - np.log(np.exp(logits).sum()))

    logprobs, step = np.array(said.logprobs), 1e-6
    for i, row in enumerate(rows):
        change = np.eye(len(logprobs))[i] * step
        slope = (cross_entropy(logprobs + change) - cross_entropy(logprobs - change)) / (2 * step)
        assert row.weight * row.advantage == pytest.approx(-slope, abs=1e-7)
        assert row.trajectory.offset == shift[i] and row.clip
    assert sum(row.advantage for row in rows) == pytest.approx(0.0, abs=1e-12)
    entropy = -sum(y * np.log(y) for y in target if y > 0)
    assert metrics["loss/judge"] == pytest.approx(cross_entropy(logprobs) - entropy)


def test_masa_s_reward_is_of_the_pass_rate():
    """Of answer k and 6 right of 8: 0.01^(|k - 6| / 8); its expectation has the advantages."""
    judge = Judge(scale="passes", loss="exact", reward="masa", weight=1.0)
    said = verdict(PASSES)
    rows, metrics = learn(judge, [Scored(said, 0.1875, 0.1875, 6.0, True)], None, "last")
    rewards = np.array([0.01 ** (abs(k - 6) / 8) for k in range(9)])
    expected = float(said.distribution @ rewards)
    assert metrics["judge/reward"] == pytest.approx(expected)
    wanted = said.distribution * (rewards - expected)
    assert [row.advantage for row in rows] == pytest.approx(wanted.tolist())
    for knobs in ({"loss": "exact"}, {"scale": "passes"}):
        with pytest.raises(MetisError, match=r"judge\.reward = 'masa': it is of a pass rate"):
            Judge(reward="masa", **knobs)


def test_the_loss_that_is_read_is_zero_for_a_perfect_judge():
    said = verdict(VARIANCE)
    object.__setattr__(said, "distribution", VARIANCE.two_hot(0.11))
    _, metrics = learn(Judge(), [Scored(said, 0.11, 0.11, 0.11, True)], None, "last")
    assert metrics["loss/judge"] == pytest.approx(0.0, abs=1e-12)


def test_replayed_judgments_have_a_key_and_earn_no_reward():
    fresh, again = (Scored(verdict(VARIANCE), 0.0, 0.0, 0.0, True, key) for key in ("", "step 3"))
    rows, metrics = learn(Judge(), [fresh, again], None, "last")
    assert [row.key for row in rows] == [""] * 11 + ["step 3"] * 11
    _, alone = learn(Judge(), [fresh], None, "last")
    assert metrics["judge/reward"] == alone["judge/reward"]
    assert "judge/baseline" not in metrics


def rows_of(count):
    """Judgments of this step and replayed ones of the same prompts, eleven rows each."""
    scored = [
        Scored(verdict(VARIANCE, name=f"prompt {i // 2}"), 0.1, 0.1, 0.1, True, "step 1" * (i % 2))
        for i in range(count)
    ]
    return learn(Judge(), scored, None, "last")[0]


@given(count=st.integers(0, 12), share=st.floats(0.01, 1.0), seed=st.integers(0, 9))
def test_a_subsample_has_whole_judgments_in_their_order(count, share, seed):
    rows = rows_of(count)
    kept = subsample(rows, share, random.Random(seed))
    assert [row for row in rows if row in kept] == list(kept)
    sizes = Counter((row.prompt.id, row.key) for row in kept)
    assert set(sizes.values()) <= {len(VARIANCE.choices)}
    assert len(sizes) == min(count, max(1, round(share * count)))


def test_the_mean_over_a_subsample_is_unbiased():
    rows, drawn, repeats = rows_of(8), Counter(), 4000
    rng = random.Random(0)
    for _ in range(repeats):
        kept = subsample(rows, 0.25, rng)
        drawn.update({(row.prompt.id, row.key) for row in kept})
    assert len(drawn) == 8
    for count in drawn.values():
        assert count / repeats == pytest.approx(0.25, abs=0.03)


def test_a_share_of_one_trains_on_all():
    rows = rows_of(3)
    assert subsample(rows, 1.0, random.Random(0)) is rows
