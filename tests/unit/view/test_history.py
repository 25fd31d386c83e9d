import pytest

from metis.view.history import RECENT, Pace, StepHistory


def test_steps_without_a_metric_leave_a_gap_and_accuracy_stays_until_the_next_test():
    history = StepHistory()
    history.add(0, 0.0, {"eval/accuracy": 0.2, "eval/stderr": 0.1}, {})
    history.add(1, 0.25, {"batch/reward": 0.5}, {})
    history.add(2, 0.5, {"eval/accuracy": 0.6}, {})
    history.add(3, 0.75, {"batch/reward": 0.3, "eval/accuracy": 0.4, "eval/stderr": 0.2}, {})
    assert history.series["batch/reward"] == [0.5, None, 0.3]
    assert history.series["eval/accuracy"] == [0.2, 0.6, 0.4]
    assert (history.start, history.best, history.tested) == (0.2, 0.6, (0.4, 0.2))


def test_discarded_rollouts_add_up_and_seconds_are_the_mean_of_the_last_steps():
    history = StepHistory()
    for step in range(1, 31):
        seconds = {"rollout": 1.0 if step <= 30 - RECENT else 3.0}
        history.add(step, 0.0, {"select/discarded": 2.0}, seconds)
    assert history.discarded == 60.0
    assert history.phases == {"rollout": 3.0}
    history.add(31, 0.0, {}, {"rollout": 3.0, "judge": 1.0})
    assert history.phases == pytest.approx({"rollout": 3.0, "judge": 1.0 / RECENT})
    assert StepHistory().phases == {}


@pytest.mark.parametrize(
    ("metrics", "state"),
    [
        ({}, None),
        ({"batch/reward": 0.5}, None),
        ({"judge/spearman": 0.1, "select/trial": 1.0}, "on trial"),
        ({"judge/failure_rate": 0.1, "select/trial": 0.0}, "selecting"),
        ({"judge/failure_rate": 0.1}, "selecting"),
    ],
)
def test_what_the_judge_is_trusted_with(metrics, state):
    assert StepHistory(latest=metrics).judge == state


def test_a_step_without_groups_says_what_it_was_for():
    idle = StepHistory(latest={"batch/groups": 0.0, "select/measured": 1280.0})
    assert not idle.trained and idle.idle == "measuring, 1,280 prompts so far"
    assert StepHistory(latest={"batch/groups": 0.0}).idle == "no update in this step"
    assert StepHistory(latest={"batch/groups": 2.0}).trained


def test_the_pace_of_the_last_steps_says_what_is_left():
    now = [100.0]
    pace = Pace(lambda: now[0])
    assert (pace.elapsed, pace.remaining) == (0.0, None)
    pace.mark(0.0)
    now[0] = 110.0
    pace.mark(0.25)
    assert (pace.elapsed, pace.remaining) == (10.0, 30.0)
    now[0] = 114.0
    assert pace.remaining == 26.0
    now[0] = 200.0
    assert pace.remaining == 0.0


def test_a_slow_beginning_is_forgotten():
    now = [0.0]
    pace = Pace(lambda: now[0])
    pace.mark(0.0)
    now[0] = 1000.0
    for step in range(RECENT + 1):
        pace.mark(0.5 + step / 100)
        now[0] += 1.0
    now[0] -= 1.0
    assert pace.remaining == pytest.approx(30.0)


def test_a_budget_that_does_not_move_has_no_end():
    pace = Pace(lambda: 0.0)
    pace.mark(0.5)
    pace.mark(0.5)
    assert pace.remaining is None
