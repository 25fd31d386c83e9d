"""The line about a variant: its costs, its accuracy at equal cost, and whether either is shown.

The last test but one is the best of a straight curve that the next one keeps: 0.4 at step 40 for
the baseline.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from metis.comparisons import report, scores
from metis.comparisons.benchmarks import Evaluated
from metis.comparisons.comparison import Comparison
from metis.comparisons.measures import AXES, MeasuredVariant, Problems
from metis.comparisons.table import markdown, notes, sections
from metis.comparisons.verdicts import runs_text, verdicts
from metis.run.recorded import Recorded


def variant(name, speed, seeds=3, tests=6, **dearness):
    """Runs whose accuracy rises in proportion to steps, at costs in proportion too."""
    steps = 10.0 * np.arange(tests)
    accuracy = np.stack([steps * speed / 100 + offset / 1000 for offset in range(seeds)])
    factors = {axis: dearness.get(axis.replace(" ", "_"), 1.0) for axis in AXES}
    spent = {axis: np.tile(steps * factor, (seeds, 1)) for axis, factor in factors.items()}
    return MeasuredVariant(name, tuple(range(seeds)), (), tuple(map(int, steps)), accuracy, spent)


def budgeted(one, **budget):
    """The same with logs of runs that have a budget."""
    runs = tuple(Recorded(Path(f"{one.name}-{seed}"), budget, {}, [], []) for seed in one.seeds)
    return replace(one, records=runs)


def said(one, untimed="Runs shared a device", baseline=1.0, seeds=3):
    ((_, sentence),) = verdicts(Comparison(variant("uniform", baseline, seeds), [one], untimed))
    return sentence


def test_every_cost_is_said_rollouts_and_generated_tokens_first_and_steps_last():
    dear = {"rollouts": 4.0, "generated_tokens": 3.0, "total_tokens": 8.0}
    sentence = said(variant("big", 2.0, 4, **dear), seeds=4)
    shares = "2.00 of uniform's rollouts, 1.50 of its generated tokens and 4.00 of its total tokens"
    assert sentence.startswith(f"needs {shares} to 0.4015, uniform's best: more rollouts (p = ")
    assert sentence.endswith("Steps: 0.50 of uniform's.") and "seconds" not in sentence


def test_seconds_are_said_where_they_are_compared():
    assert " and 0.50 of its seconds to " in said(variant("fast", 2.0, rollouts=2.0), "")


def test_steps_are_not_said_where_they_are_as_rollouts():
    """Rollouts of both are ten a step; the table leaves their column out, and says why."""
    one, other = variant("fast", 2.0, rollouts=10.0), variant("uniform", 1.0, rollouts=10.0)
    same = Comparison(other, [one], "Runs shared a device")
    assert "steps" not in same.axes and "Steps" not in verdicts(same)[0][1]
    assert "Every step has 10 rollouts" in markdown(same)
    more = Comparison(other, [variant("big", 2.0, rollouts=20.0)])
    assert more.axes[-1] == "steps" and "Every step has" not in markdown(more)


@pytest.mark.parametrize(
    ("budget", "lead"),
    [
        ({"steps": 50}, "rollouts"),
        ({"tokens": 9}, "generated tokens"),
        ({"tokens": 0, "processed": 9}, "total tokens"),
        ({"seconds": 9}, "rollouts"),
    ],
)
def test_a_verdict_is_about_the_budget_of_tokens_or_rollouts(budget, lead):
    one, other = (
        budgeted(variant("one", 2.0), **budget),
        budgeted(variant("uniform", 1.0), **budget),
    )
    ((_, sentence),) = verdicts(Comparison(other, [one]))
    assert f"not shown (p = 0.10 in {lead}). Accuracy at 50 {lead}: " in sentence
    mixed = Comparison(other, [budgeted(variant("one", 2.0), steps=50)])
    assert "not shown (p = 0.10 in rollouts). " in verdicts(mixed)[0][1]


def test_a_verdict_is_about_steps_where_nothing_else_was_counted():
    nothing = {"rollouts": 0.0, "generated_tokens": 0.0, "total_tokens": 0.0, "seconds": 0.0}
    sentence = said(variant("old", 2.0, **nothing))
    assert sentence.startswith("needs 0.50 of uniform's steps to ")
    assert "Accuracy at 50 steps: " in sentence and "Steps:" not in sentence


def test_what_few_runs_cannot_show_is_not_shown_however_clear_it_looks():
    sentence = said(variant("fast", 2.0))
    assert "to 0.4010, uniform's best: not shown (p = 0.10 in rollouts)." in sentence
    assert "0.1000 against" not in sentence and "+0.5000: not shown (p = 0.10)." in sentence
    assert "3 runs against 3: p cannot go below 0.10, so no difference can be shown." in sentence
    assert not any(word in sentence for word in ("faster", "fewer", "higher"))
    shown = said(variant("fast", 2.0, 4), seeds=4)
    assert ": fewer rollouts (p = 0.029)." in shown
    assert ": higher (p = 0.029). 4 runs against 4: p cannot go below 0.029." in shown
    slow = said(variant("slow", 0.5), seeds=4)
    assert ": more rollouts (p = 0.029)." in slow and ": lower (p = 0.029)." in slow


def test_accuracy_at_equal_cost_is_between_the_tests_of_the_cheaper_variant():
    """Rollouts of the baseline end at 50; the variant's are 4 a step, so that it is tested at 40
    and 80, at 0.1 and 0.2, and is a quarter of the way at 50."""
    sentence = said(variant("big", 1.0, 4, rollouts=4.0), seeds=4)
    assert "Accuracy at 50 rollouts: 0.1265 against 0.5015, -0.3750 [-0.37" in sentence


def test_no_interval_stands_beside_a_difference_that_so_few_runs_cannot_show():
    assert "[" not in said(variant("fast", 2.0)) and "[" in said(variant("fast", 2.0, 4))


def test_a_cost_that_was_not_counted_says_nothing():
    assert "total tokens" not in said(variant("old", 2.0, total_tokens=0.0))


def test_unequal_variants_are_too_few_only_where_no_relabelling_is_rare_enough():
    assert runs_text(2, 6) == "2 runs against 6: p cannot go below 0.036."
    few = ", so no difference can be shown."
    assert runs_text(1, 6) == f"1 run against 6: p cannot go below 0.14{few}"


@pytest.mark.parametrize(
    ("speed", "baseline", "expected"),
    [
        (
            1.0,
            0.0,
            "improved from 0.0010 to 0.4010; uniform did not stay above its accuracy before "
            "training (0.0010) for two tests: no cost to compare.",
        ),
        (
            0.0,
            1.0,
            "did not stay above its accuracy before training (0.0010) for two tests: no cost to "
            "compare.",
        ),
        (
            -1.0,
            -2.0,
            "did not stay above its accuracy before training (0.0010) for two tests and fell to "
            "-0.4990; neither did uniform, which fell to -0.9990: no cost to compare.",
        ),
    ],
)
def test_an_variant_that_does_not_improve_has_no_cost_to_compare(speed, baseline, expected):
    """A baseline that stays where it began would have reached it at no cost at all."""
    sentence = said(variant("one", speed), baseline=baseline)
    assert sentence.startswith(f"{expected} Accuracy at 50 rollouts: ") and "needs" not in sentence


def test_a_ratio_beyond_measure_is_not_written_out():
    """The baseline passes the variant's best soon after its first test."""
    assert "needs over 100 times uniform's rollouts" in said(variant("slow", 0.005))


def test_an_variant_short_of_the_baseline_s_best_is_said_to_be():
    sentence = said(variant("slow", 0.5))
    assert " It does not reach uniform's best: 0.2010 against 0.4010." in sentence
    assert "does not reach" not in said(variant("fast", 2.0))


def test_runs_of_another_length_are_compared_within_the_steps_of_both():
    assert "uniform's best in 30 steps: " in said(variant("short", 2.0, tests=4))
    assert "uniform's best in 50 steps: " in said(variant("long", 2.0, tests=9))
    assert "uniform's best: " in said(variant("equal", 2.0))
    assert " to 0.2010, its own best: " in said(variant("slow", 0.5))


def every(one, step):
    """A variant tested at every so many tests."""
    return one.at_tests_of(replace(one, steps=one.steps[::step]))


def test_a_run_that_is_tested_less_often_is_not_slower():
    often = variant("uniform", 1.0, tests=13)
    seldom = every(replace(often, name="seldom"), 3)
    comparison = Comparison(often, [seldom], "Runs shared a device")
    costs = next(part for part in sections(comparison) if part.title.startswith("Cost"))
    assert costs.rows[1][1] == "raw" and all(cell[:6] == "1.000 " for cell in costs.rows[1][2:])
    accuracy, _ = (row[3:6] for row in sections(comparison)[0].rows[1:])
    assert all(row[3:6] == accuracy for row in sections(comparison)[0].rows[1:])
    ((_, sentence),) = verdicts(comparison)
    assert "needs 1.00 of" in sentence and "does not reach" not in sentence


def test_a_cost_needs_three_tests_in_common():
    often = variant("uniform", 1.0, tests=6)
    comparison = Comparison(often, [every(replace(often, name="seldom"), 5)], "")
    costs = next(part for part in sections(comparison) if part.title.startswith("Cost"))
    assert set(costs.rows[1][1:]) == {"– (too few tests in common)"}
    ((_, sentence),) = verdicts(comparison)
    assert sentence.startswith("has no cost to compare: too few tests in common with uniform")
    lines = report.accuracy(comparison)[0].panels[0].lines
    assert [len(line.series.x) for line in lines] == [6, 2], "each is drawn at its own tests"


def test_one_variant_has_no_table_of_costs():
    text = markdown(Comparison(variant("uniform", 1.0), [], "Runs shared a device"))
    assert "Cost to reach" not in text and "## Accuracy at equal cost" in text


def test_the_curves_of_a_page_begin_at_one_height():
    comparison = Comparison(variant("uniform", 1.0), [variant("fast", 2.0)], "Runs shared a device")
    heights = {line.series.y[0] for line in report.accuracy(comparison)[0].panels[0].lines}
    assert len(heights) == 1


def test_the_table_says_how_curves_were_read():
    """The level is reached at the last test but one: the 21st after the first, or the 20th."""

    def curves(tests):
        pair = Comparison(variant("uniform", 0.1, tests=tests), [variant("one", 0.1, tests=tests)])
        return next(part for part in sections(pair) if part.title.startswith("Cost")).rows[1][1]

    assert curves(22) == "smoothed" and curves(21) == "raw"
    assert "20 tests or more" in " ".join(notes(Comparison(variant("uniform", 1.0), [])))


def test_runs_and_problems_are_resampled_where_all_are_tested_on_the_same_problems():
    def tested(name, rewards, problems=("a", "b")):
        """Two runs of three tests, each with the same rewards of two problems."""
        rewards = np.tile(np.array(rewards)[:, None], (1, 3, 1))
        one = variant(name, 0.0, seeds=2, tests=3)
        problems = Problems(problems, ("", ""), rewards)
        return replace(one, accuracy=rewards.mean(axis=2), problems=problems)

    baseline = tested("uniform", [[0.0, 1.0], [0.0, 1.0]])
    runs = [[1.0, 1.0], [1.0, 1.0]]
    variants = [tested("same", runs), tested("other", runs, ("a", "c"))]
    _, same, other = sections(Comparison(baseline, variants))[0].rows[1:]
    assert same[-2:] == ["+0.5000 [+0.0000, +1.0000]", "runs and problems"]
    assert other[-2:] == ["+0.5000 [+0.5000, +0.5000]", "runs"]
    assert same[:3] == ["same", "0, 1", "2"], "the runs are counted"


def evaluated(*rewards):
    """The evaluation of a run on two benchmarks of two problems each."""
    problems = [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]
    scores = dict(zip(problems, rewards, strict=True))
    return Evaluated("mean@4", {"a": "Set A", "b": "Set B"}, scores)


def test_benchmarks_are_columns_and_averages_are_compared_over_runs():
    uniform = {f"uniform-{seed}": evaluated(0, 0.5, 0, 0.1 * seed) for seed in range(3)}
    fast = {f"fast-{seed}": evaluated(1, 0.5, 0.5, 0.1 * seed) for seed in range(3)}
    both = Comparison(variant("uniform", 1.0), [variant("fast", 2.0)], evaluations=uniform | fast)
    header, base, other = scores.evaluated(both)
    assert header == ["variant", "runs", "Set A", "Set B", "Avg.", "difference", "p"]
    assert base == ["uniform", "3", "25.0", "5.0 ± 2.9", "15.0 ± 1.4", "–", "–"]
    assert other[:5] == ["fast", "3", "75.0", "30.0 ± 2.9", "52.5 ± 1.4"]
    assert other[5].startswith("+37.5 [") and other[6] == "0.10"
    assert any("mean@4" in section.title for section in sections(both))


def test_runs_without_an_evaluation_are_not_counted():
    one = Comparison(
        variant("uniform", 1.0),
        [variant("fast", 2.0)],
        evaluations={"uniform-1": evaluated(0, 1, 0, 1)},
    )
    assert scores.evaluated(one)[1:] == [["uniform", "1", "50.0", "50.0", "50.0", "–", "–"]]
    assert not scores.evaluated(Comparison(variant("uniform", 1.0), []))


def test_validations_on_benchmarks_are_shown_at_the_best_one():
    metrics = [
        {"step": step, "eval/accuracy/math500": step / 100, "eval/accuracy/aime24": 0.1}
        for step in range(0, 60, 10)
    ]
    runs = tuple(Recorded(Path(f"uniform-{seed}"), {}, {}, metrics, []) for seed in range(3))
    table = scores.validated(Comparison(replace(variant("uniform", 1.0), records=runs), []))
    assert table == [
        ["variant", "at step", "MATH500", "AIME24", "Avg."],
        ["uniform", "40", "40.0", "10.0", "25.0"],
    ]
    assert not scores.validated(Comparison(variant("uniform", 1.0), []))
