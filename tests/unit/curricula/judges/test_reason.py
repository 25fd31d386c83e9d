"""The paper's judge by hand: a step by the lines of Algorithm 1, its baseline and its failures."""

import json

import numpy as np
import pytest

from metis import Group, MetisError, Pool, Progress, drive
from metis.core import Complete, Rollout
from metis.curricula.judges import Reason
from metis.curricula.metis import Metis
from metis.signal import judge_reward
from scripted import LETTERS, PASSED, PROMPTS, REPLIES, Scripted, asked_of, trajectory

V = {"a": 0.109375, "b": 0.234375, "c": 0.25, "d": 0.0}
"""The variances of PASSED."""


def paper(judge=None, **knobs) -> Metis:
    """Two of four prompts a step, as in the paper."""
    given = {"batch": 2, "multiplier": 2, "explore": 0.0, "trial": 0, **knobs}
    return Metis(**given, judge=Reason(**(judge or {})))


def step(curriculum, engine, number=0, pool=None, seed=0):
    return drive(curriculum.step(pool or Pool(PROMPTS), Progress(number, seed=seed)), engine)


def test_one_step_by_the_lines_of_algorithm_1():
    curriculum, engine = paper(), Scripted(REPLIES, PASSED)
    batch = step(curriculum, engine)

    judged, rolled = engine.asked
    assert isinstance(judged, Complete) and isinstance(rolled, Rollout)
    # 3: no pair yet, so that K = 0; v_hat of all m B candidates
    assert {asked_of(chat) for chat in judged.chats} == set("abcd")
    assert all(len(chat) == 2 for chat in judged.chats)
    assert (judged.sampling.max_tokens, judged.sampling.temperature) == (512, 1.0)
    # 4: the two with the highest v_hat, 0.12 and 0.25. 5: eight rollouts of each
    assert ({prompt.id for prompt in rolled.prompts}, rolled.n) == ({"a", "b"}, 8)
    # 6: L_judge = -mean (R - b) log pi(reply), b = 0 at first, lambda = 0.01 over five tokens
    reward = {"a": judge_reward(0.12, V["a"]), "b": judge_reward(0.25, V["b"])}
    mean = (reward["a"] + reward["b"]) / 2
    rows = {row.prompt.id: row for row in batch.judgments}
    assert len(batch.judgments) == 2 and rows.keys() == reward.keys()
    for key, row in rows.items():
        assert row.advantage == pytest.approx(reward[key])
        assert row.weight == pytest.approx(0.01 / 5)
        assert (row.clip, row.key, row.temperature) == (False, "", 1.0)
    assert batch.gradient_share == 0.0
    # 7: the baseline and the memory
    assert curriculum.judge.baseline == pytest.approx(0.05 * mean)
    pairs = curriculum.judge.memory.pairs
    assert {(pair.prompt, pair.v) for pair in pairs} == {("a", V["a"]), ("b", V["b"])}

    assert batch.metrics["judge/reward"] == pytest.approx(mean)
    assert batch.metrics["judge/baseline"] == 0.0
    assert batch.metrics["judge/failure_rate"] == batch.metrics["judge/failure_no_box"] == 0.25
    assert batch.metrics["judge/at_maximum"] == pytest.approx(1 / 3)
    decisions = {decision.prompt.id: decision for decision in batch.decisions}
    assert [decisions[key].chosen for key in "abcd"] == [True, True, False, False]
    assert [decisions[key].score for key in "abcd"] == [0.12, 0.25, None, 0.02]
    assert (decisions["c"].failure, decisions["c"].reply) == ("no box", REPLIES["c"])
    assert [decisions[key].propensity for key in "abcd"] == [1.0, 1.0, 0.0, 0.0]


def test_the_second_step_shows_what_the_first_one_realised_and_subtracts_its_baseline():
    curriculum, engine, pool = paper(), Scripted(REPLIES, PASSED), Pool(PROMPTS)
    step(curriculum, engine, 0, pool)
    before = curriculum.judge.baseline
    batch = step(curriculum, engine, 1, pool)
    user = engine.asked[2].chats[0][-1]["content"]
    shown = user.split("[Candidate]")[0]
    assert shown.index("text of a") < shown.index("0.109") < shown.index("text of b")
    assert "REWARD_VARIANCE: 0.234" in shown and "[Example 3]" not in shown
    assert [(e.prompt.id, e.value, e.step) for e in batch.exemplars] == [
        ("a", V["a"], 1),
        ("b", V["b"], 1),
    ]
    asked = {asked_of(chat) for chat in engine.asked[2].chats}
    assert asked == {"c", "d"}, "of a pool this small candidates are shown, and not judged then"
    reward = {"c": judge_reward(0.0, V["c"]), "d": judge_reward(0.02, V["d"])}
    for row in batch.judgments:
        assert row.advantage == pytest.approx(reward[row.prompt.id] - before)
    mean = sum(reward.values()) / 2
    assert curriculum.judge.baseline == pytest.approx(0.95 * before + 0.05 * mean)
    assert batch.metrics["judge/baseline"] == before


def test_the_memory_is_that_of_the_step_before():
    curriculum, pool = paper({"examples": 9}), Pool(LETTERS)
    replies = {prompt.id: r"\boxed{0.10}" for prompt in LETTERS}
    engine = Scripted(replies, {prompt.id: 4 for prompt in LETTERS})
    before = step(curriculum, engine, 0, pool)
    for number in range(1, 6):
        batch = step(curriculum, engine, number, pool)
        rolled = {group.prompt.id for group in before.groups}
        assert {each.prompt.id for each in batch.exemplars} <= rolled
        assert {each.step for each in batch.exemplars} == {number}
        before = batch


def test_a_step_with_fewer_pairs_than_exemplars_is_not_filled_up_from_earlier_ones():
    curriculum, pool = paper({"examples": 3}), Pool(LETTERS)
    engine = Scripted({p.id: r"\boxed{0.10}" for p in LETTERS}, {p.id: 4 for p in LETTERS})
    step(curriculum, engine, 0, pool)
    assert [len(step(curriculum, engine, at, pool).exemplars) for at in (1, 2)] == [2, 2]


def test_the_baseline_from_a_mean_reward_of_080():
    v_hat = 0.25 - np.sqrt(0.2) / 4  # R = 0.8 against v = 0.25
    replies = dict.fromkeys("abcd", rf"\boxed{{{v_hat:.12f}}}")
    curriculum, engine = paper(), Scripted(replies, dict.fromkeys("abcd", 4))
    step(curriculum, engine)
    assert curriculum.judge.baseline == pytest.approx(0.04)
    step(curriculum, engine, 1)
    assert curriculum.judge.baseline == pytest.approx(0.95 * 0.04 + 0.04)


def test_a_failure_counts_as_zero_in_the_paper_and_scores_worst_when_ranked_last():
    engine = Scripted(dict.fromkeys("abcd", "no judgment"), dict.fromkeys("abcd", 0))
    batch = step(paper(), engine)
    assert [row.advantage for row in batch.judgments] == [1.0, 1.0]  # full marks for v = 0
    batch = step(paper({"failures": "last"}), engine)
    assert [row.advantage for row in batch.judgments] == [0.0, 0.0]  # b = 0, and R = 0
    assert batch.metrics["judge/reward"] == 0.0


@pytest.mark.parametrize(
    ("failures", "chosen"), [("zero", {"a", "b", "c", "d"}), ("last", {"c", "d"})]
)
def test_a_failure_ties_with_a_prediction_of_zero_or_loses_to_it(failures, chosen):
    replies = {"a": "?", "b": "?", "c": r"\boxed{0.00}", "d": r"\boxed{0.00}"}
    found = set()
    for seed in range(20):
        batch = step(paper({"failures": failures}), Scripted(replies, PASSED), seed=seed)
        found |= {group.prompt.id for group in batch.groups}
    assert found == chosen


def test_failures_are_pushed_down_even_when_there_is_nothing_else():
    curriculum = paper({"failures": "last"})
    curriculum.judge.baseline = 0.8
    engine = Scripted(dict.fromkeys("abcd", "no judgment"), dict.fromkeys("abcd", 0))
    batch = step(curriculum, engine)
    assert [row.advantage for row in batch.judgments] == [-0.1, -0.1]


def test_a_failure_cannot_dominate_the_step():
    replies = {"a": r"\boxed{0.12}", "b": "?", "c": r"\boxed{0.18}", "d": r"\boxed{0.20}"}
    curriculum = paper({"failures": "last"}, batch=4, multiplier=1)
    curriculum.judge.baseline = 0.9
    batch = step(curriculum, Scripted(replies, PASSED))
    rewards = [judge_reward(*p) for p in ((0.12, V["a"]), (0.18, V["c"]), (0.20, V["d"]))] + [0.0]
    advantages = {row.prompt.id: row.advantage for row in batch.judgments}
    assert advantages["b"] == pytest.approx(-np.std(rewards))
    assert advantages["a"] == pytest.approx(rewards[0] - 0.9)


def test_equal_predictions_choose_every_candidate_equally_often():
    replies = dict.fromkeys("abcd", r"\boxed{0.10}")
    counts = dict.fromkeys("abcd", 0)
    for seed in range(600):
        chosen, again = (
            [
                group.prompt.id
                for group in step(paper(), Scripted(replies, PASSED), seed=seed).groups
            ]
            for _ in range(2)
        )
        assert chosen == again
        for key in chosen:
            counts[key] += 1
    assert all(abs(count - 300) < 5 * np.sqrt(150) for count in counts.values())


def test_continuous_rewards_are_scored_by_the_variance():
    replies = dict.fromkeys("abcd", r"\boxed{0.10}")
    curriculum = paper(batch=4, multiplier=1)
    pool = Pool(PROMPTS, rewards="continuous")
    batch = step(curriculum, Scripted(replies, PASSED), pool=pool)
    advantages = {row.prompt.id: row.advantage for row in batch.judgments}
    assert advantages == pytest.approx({key: judge_reward(0.10, V[key]) for key in "abcd"})


def test_predictions_beside_the_list_count_and_are_told_of():
    replies = {"a": r"\boxed{0.12}", "b": r"\boxed{0.11}", "c": r"\boxed{0.25}", "d": "?"}
    batch = step(paper(batch=4, multiplier=1), Scripted(replies, PASSED))
    assert (
        batch.metrics["judge/off_grid"] == batch.metrics["judge/at_maximum"] == pytest.approx(1 / 3)
    )
    assert {d.prompt.id: d.score for d in batch.decisions}["b"] == 0.11


def test_rows_are_taken_at_the_temperature_of_the_replies():
    curriculum, engine = paper({"temperature": 0.7, "max_tokens": 9}), Scripted(REPLIES, PASSED)
    batch = step(curriculum, engine)
    assert (engine.asked[0].sampling.temperature, engine.asked[0].sampling.max_tokens) == (0.7, 9)
    assert curriculum.needs.sampling == engine.asked[0].sampling
    assert {row.temperature for row in batch.judgments} == {0.7}


def test_no_lambda_no_rows():
    batch = step(paper({"weight": 0.0}), Scripted(REPLIES, PASSED))
    assert batch.judgments == [] and "judge/reward" in batch.metrics


def test_what_was_too_long_to_be_asked_teaches_nothing():
    replies = {**REPLIES, "a": None, "b": None}
    curriculum = paper(batch=4, multiplier=1)
    batch = step(curriculum, Scripted(replies, PASSED))
    assert {row.prompt.id for row in batch.judgments} == {"c", "d"}
    rewards = [judge_reward(0.0, V["c"]), judge_reward(0.02, V["d"])]
    assert batch.metrics["judge/reward"] == pytest.approx(np.mean(rewards))
    assert {d.failure for d in batch.decisions} == {None, "no box", "does not fit"}
    assert batch.metrics["judge/failure_does_not_fit"] == 0.5


def test_groups_without_a_variance_teach_nothing():
    class Failing(Scripted):
        def rollout(self, prompts, n):
            return [Group(prompt, (1.0,), (trajectory(),), failed=n - 1) for prompt in prompts]

    curriculum = paper()
    batch = step(curriculum, Failing(REPLIES))
    assert len(batch.groups) == 2 and batch.judgments == ()
    assert (curriculum.judge.memory.pairs, curriculum.judge.baseline) == ([], 0.0)


def test_state_is_json_and_comes_back_typed():
    curriculum = paper()
    step(curriculum, Scripted(REPLIES, PASSED))
    saved = json.loads(json.dumps(curriculum.state_dict()))
    other = paper()
    other.load_state_dict(saved)
    assert other == curriculum and other.judge.baseline > 0
    assert [pair.v for pair in other.judge.memory.pairs] == [
        pair.v for pair in curriculum.judge.memory.pairs
    ]


@pytest.mark.parametrize(
    ("knobs", "key"),
    [
        ({"examples": -1}, "examples = -1"),
        ({"ema": 1.0}, "ema = 1.0"),
        ({"ema": -0.1}, "ema = -0.1"),
        ({"weight": -1.0}, "weight = -1.0"),
        ({"weight": float("nan")}, "weight = nan"),
        ({"max_tokens": 0}, "max_tokens = 0"),
        ({"temperature": 0.0}, "temperature = 0.0"),
        ({"temperature": float("inf")}, "temperature = inf"),
    ],
)
def test_impossible_knobs_are_refused_by_name(knobs, key):
    with pytest.raises(MetisError, match=rf"^curriculum\.judge\.{key}"):
        Reason(**knobs)
