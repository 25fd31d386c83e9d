"""The sentence about an arm: costs that disagree with its steps are named.

The mean of the last two tests is the best of a straight curve: 45 at step 50 for the baseline.
"""

from dataclasses import replace

import numpy as np
import pytest

from metis.compare import charts
from metis.compare.comparison import Comparison
from metis.compare.measures import AXES, Measured
from metis.compare.table import markdown, sections, verdicts


def arm(name, speed, seeds=3, tests=6, **dearness):
    """Runs whose accuracy rises in proportion to steps, at costs in proportion too."""
    steps = 10.0 * np.arange(tests)
    accuracy = np.stack([steps * speed / 100 + offset / 1000 for offset in range(seeds)])
    factors = {axis: dearness.get(axis.replace(" ", "_"), 1.0) for axis in AXES}
    spent = {axis: np.tile(steps * factor, (seeds, 1)) for axis, factor in factors.items()}
    return Measured(name, tuple(range(seeds)), (), tuple(map(int, steps)), accuracy, spent)


def said(one, untimed="Runs shared a device", baseline=1.0):
    ((_, sentence),) = verdicts(Comparison(arm("uniform", baseline), [one], untimed))
    return sentence


def test_fewer_steps_of_more_rollouts_are_not_called_faster_alone():
    sentence = said(arm("big", 2.0, rollouts=4.0, generated_tokens=1.0, seconds=4.0))
    assert "needs 0.45" in sentence and ": faster" in sentence
    assert sentence.endswith(" At that accuracy it has spent more: 1.80 of uniform's rollouts.")


def test_a_cost_that_saves_less_than_half_of_what_steps_save_is_named():
    sentence = said(arm("halves", 2.0, rollouts=2.0, generated_tokens=1.2, processed_tokens=4.0))
    spent = "0.90 of uniform's rollouts, and more: 1.80 of uniform's processed tokens"
    assert sentence.endswith(f" At that accuracy it has spent {spent}.")


def test_more_steps_that_cost_less_are_said_to():
    sentence = said(arm("small", 0.5, rollouts=0.25, generated_tokens=0.25), untimed="")
    assert ": slower" in sentence and "it has spent less: 0.56 of" in sentence
    assert "rollouts" in sentence and "generated tokens" in sentence and "seconds" not in sentence


@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
def test_costs_that_agree_are_not_repeated(speed):
    assert "At that accuracy" not in said(arm("same", speed))


def test_a_cost_that_was_not_counted_says_nothing():
    assert "processed" not in said(arm("old", 2.0, processed_tokens=0.0))


def test_of_one_seed_no_number_of_seeds_is_reckoned():
    sentence = said(arm("once", 2.0, seeds=1))
    assert "one seed cannot tell that from noise; 4 of each can." in sentence
    assert "100 seeds" not in sentence and "p =" not in sentence


@pytest.mark.parametrize(
    ("speed", "baseline", "expected"),
    [
        (
            1.0,
            0.0,
            "improved from 0.0010 to 0.4510; uniform did not improve on its accuracy before "
            "training (0.0010): no cost to compare.",
        ),
        (
            0.0,
            1.0,
            "did not improve on its accuracy before training (0.0010): no cost to compare.",
        ),
        (
            -1.0,
            -2.0,
            "did not improve on its accuracy before training (0.0010) and fell to -0.4990; "
            "neither did uniform, which fell to -0.9990: no cost to compare.",
        ),
    ],
)
def test_an_arm_that_does_not_improve_has_no_cost_to_compare(speed, baseline, expected):
    """A baseline that stays where it began would have reached it at no cost at all."""
    assert said(arm("one", speed), baseline=baseline) == expected


def test_a_ratio_beyond_measure_is_not_written_out():
    """The baseline passes the arm's best soon after its first test."""
    assert "needs over 100 times uniform's steps" in said(arm("slow", 0.005))


def test_an_arm_short_of_the_baseline_s_best_is_said_to_be():
    sentence = said(arm("slow", 0.5))
    assert " It does not reach uniform's best: 0.2260 against 0.4510." in sentence
    assert "does not reach" not in said(arm("fast", 2.0))


def test_runs_of_another_length_are_compared_within_the_steps_of_both():
    assert "that both reach in 30 steps: faster" in said(arm("short", 2.0, tests=4))
    assert "that both reach in 50 steps: faster" in said(arm("long", 2.0, tests=9))
    assert "that both reach: faster" in said(arm("equal", 2.0))


def test_more_seeds_than_there_are_would_show_a_difference():
    sentence = said(arm("fast", 2.0))
    assert "about 4 seeds of each would probably show it, if it is as large" in sentence
    assert "seeds" not in said(arm("same", 1.0)), "there is no difference to show"


def every(one, step):
    """An arm tested at every so many tests."""
    return one.at_tests_of(replace(one, steps=one.steps[::step]))


def test_a_run_that_is_tested_less_often_is_not_slower():
    often = arm("uniform", 1.0, tests=13)
    seldom = every(replace(often, name="seldom"), 3)
    comparison = Comparison(often, [seldom], "Runs shared a device")
    costs = next(part for part in sections(comparison) if part.title.startswith("Cost"))
    assert costs.rows[1] == ["seldom", *["1.000 [1.000, 1.000]"] * 4]
    accuracy, _ = (row[3:5] for row in sections(comparison)[0].rows[1:])
    assert all(row[3:5] == accuracy for row in sections(comparison)[0].rows[1:])
    ((_, sentence),) = verdicts(comparison)
    assert "needs 1.00 of" in sentence and "does not reach" not in sentence


def test_a_cost_needs_three_tests_in_common():
    often = arm("uniform", 1.0, tests=6)
    comparison = Comparison(often, [every(replace(often, name="seldom"), 5)], "")
    costs = next(part for part in sections(comparison) if part.title.startswith("Cost"))
    assert set(costs.rows[1][1:]) == {"– (too few tests in common)"}
    ((_, sentence),) = verdicts(comparison)
    assert sentence.startswith("has no cost to compare: too few tests in common with uniform")
    lines = charts._accuracy(comparison).panels[0].lines
    assert [len(line.series.x) for line in lines] == [6, 2], "each is drawn at its own tests"


def test_one_arm_has_no_table_of_costs():
    text = markdown(Comparison(arm("uniform", 1.0), [], "Runs shared a device"))
    assert "Cost to reach" not in text and "## Accuracy at equal cost" in text


def test_the_curves_of_a_page_begin_at_one_height():
    comparison = Comparison(arm("uniform", 1.0), [arm("fast", 2.0)], "Runs shared a device")
    heights = {line.series.y[0] for line in charts._accuracy(comparison).panels[0].lines}
    assert len(heights) == 1
