"""Shares, ceilings and advice from outcomes made by hand."""

import pytest

from metis.surveys.advice import advice
from metis.surveys.facts import PromptOutcome, Share, SurveyFacts
from metis.surveys.page import page
from metis.surveys.prediction import predict

ALL_FAIL, ALL_PASS = (0.0,) * 4, (1.0,) * 4


def outcome(rewards, category="", cut_off=0, failed=0, tokens=10):
    return PromptOutcome("p", category, rewards, (tokens,) * len(rewards), failed, cut_off)


def mixed(*counts):
    """So many all-fail, informative and all-pass prompts."""
    kinds = (ALL_FAIL, (0.0, 1.0, 0.0, 1.0), ALL_PASS)
    pairs = zip(kinds, counts, strict=True)
    return SurveyFacts([outcome(rewards) for rewards, count in pairs for _ in range(count)])


def test_prompts_are_all_fail_informative_all_pass_or_failed():
    kinds = [
        outcome(r).kind for r in (ALL_FAIL, (0.0, 1.0), ALL_PASS, (1.0,), (0.3, 0.3), (0.3, 0.4))
    ]
    assert kinds == ["all-fail", "informative", "all-pass", "failed", "all-fail", "informative"]


def test_a_wilson_interval_says_something_about_none_of_many():
    assert Share.of(0, 256) == pytest.approx((0.0, 0.0, 0.0148), abs=1e-3)
    assert Share.of(50, 100) == pytest.approx((0.5, 0.404, 0.596), abs=1e-3)
    assert Share.of(0, 0) == (0.0, 0.0, 1.0)


def test_the_ceiling_is_the_best_over_the_mean():
    assert mixed(3, 1, 0).ceiling(4) == pytest.approx(4.0)
    assert mixed(2, 2, 0).ceiling(4) == pytest.approx(2.0)
    assert mixed(4, 0, 0).ceiling(4) is None


def test_the_histogram_keeps_the_ends_for_all_and_none():
    facts = SurveyFacts(
        [outcome(r) for r in (ALL_FAIL, ALL_PASS, (0.5, 0.5), (0.01, 0.0), (0.99, 1.0))]
    )
    assert facts.histogram(4) == [1, 1, 1, 1, 1]


def test_waste_is_the_share_of_tokens_in_groups_without_variance():
    facts = SurveyFacts([outcome(ALL_FAIL, tokens=30), outcome((0.0, 1.0, 1.0, 1.0), tokens=10)])
    assert facts.waste == pytest.approx(0.75)
    assert facts.length(0.5) == 20 and facts.rollouts == 8
    assert SurveyFacts([]).waste is None


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (mixed(100, 0, 0), "no selection finds a gradient"),
        (mixed(1, 0, 99), "Take harder prompts"),
        (mixed(97, 3, 0), "is not predicted"),
        (mixed(90, 10, 0), "Compare it with uniform"),
        (mixed(20, 60, 20), "no gain is predicted"),
        (SurveyFacts([outcome(ALL_FAIL, cut_off=4)] * 9), "raise engine.max_tokens"),
        (SurveyFacts([outcome((0.0, 1.0), cut_off=2)]), "raise engine.max_tokens"),
        (mixed(23, 1, 0), "24 prompts are too few for advice"),
        (SurveyFacts([outcome((), failed=4)] * 9), "fix the task"),
    ],
)
def test_the_advice_follows_from_the_pool(facts, words):
    said = advice(facts, 4)
    assert words in said and len(said.split(". ")) <= 2
    assert f"**{said}**" in page(facts, 1000, 4, {})


def test_the_pool_stands_among_measured_ones():
    text = page(mixed(99, 1, 0), 1000, 4, {})
    places = [text.index(words) for words in ("| 1.4%", "| **1.0%**", "| 0.6%")]
    assert places == sorted(places) and "| not predicted" in text


def test_categories_have_a_table_where_there_are_several():
    facts = SurveyFacts([outcome(ALL_FAIL, "hard"), outcome(ALL_PASS, "easy")])
    text = page(facts, 2, 4, {"judge": 1.0, "rollout": 3.0})
    assert "| easy " in text and "Judging adds 33% to a step" in text
    assert "## By category" not in page(mixed(1, 1, 1), 3, 4, {})


def test_rare_prompts_of_additions_predict_a_gain_if_the_sample_is_large():
    many, few = mixed(990, 10, 0), mixed(99, 1, 0)
    expected = predict(many.informative, "arithmetic")
    said = advice(many, 4, "arithmetic")
    assert f"{expected.low:.2f} to {expected.high:.2f} of uniform" in said
    assert "Use METIS" in said and f"middle {expected.rollouts:.2f}" in said
    seen = f"predicted {expected.rollouts:.2f} ({expected.low:.2f} to {expected.high:.2f})"
    assert seen in page(many, 1000, 4, {}, False, "arithmetic")
    assert "no gain is predicted from so few (survey more" in advice(few, 4, "arithmetic")
    assert "no gain is predicted. Compare" in advice(mixed(940, 60, 0), 4, "arithmetic")
    assert "not predicted" in advice(many, 4, "math")
