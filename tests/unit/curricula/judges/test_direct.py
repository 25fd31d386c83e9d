"""The judge by log-probabilities: its loss, its offsets, its replay, and what it asks."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metis import MetisError, Pool, Progress, Prompt, drive
from metis.core import Continuation, Judgment, Score, state
from metis.curricula.judges import Direct
from metis.curricula.judges.direct import LARGEST, subsample_judgments, updated_offsets
from metis.curricula.judges.scale import GRID, PASSES, VARIANCE
from metis.curricula.metis import Metis
from metis.signal import softmax
from scripted import LETTERS, PASSED, PROMPTS, Scripted, alike

both_scales = pytest.mark.parametrize("scale", [VARIANCE, PASSES], ids=lambda scale: scale.name)
CHAT = [{"role": "user", "content": "?"}]


def metis(judge=None, **knobs) -> Metis:
    """All four prompts a step, none shown and none again, unless told otherwise."""
    given = {"batch": 4, "multiplier": 1, "explore": 0.0, "trial": 0, **knobs}
    return Metis(**given, judge=Direct(**{"examples": 0, "replay": 0, **(judge or {})}))


def step(curriculum, engine, number=0, pool=None):
    return drive(curriculum.step(pool or Pool(PROMPTS), Progress(number)), engine)


def any_logprobs(scale, seed=0):
    draw = np.random.default_rng(seed)
    return {key: draw.normal(-3, 2, len(scale.choices)).tolist() for key in "abcd"}


def rows_of(batch, key):
    return [row for row in batch.judgments if row.prompt.id == key]


@both_scales
@pytest.mark.parametrize("shifted", [False, True])
def test_the_rows_have_the_gradient_of_the_cross_entropy(scale, shifted):
    """P = softmax(log-probabilities + offsets); of 1 of 8 passes, v = 7/64 is between answers."""
    logprobs = any_logprobs(scale)
    curriculum = metis({"scale": scale.name})
    shift = np.random.default_rng(1).normal(0, 1, len(scale.choices)) * shifted
    curriculum.judge.offsets = shift.tolist() if shifted else []
    batch = step(curriculum, Scripted({}, {**PASSED, "d": 8}, logprobs))
    target = scale.two_hot({"variance": 7 / 64, "passes": 1.0}[scale.name])

    def cross_entropy(at):
        logits = at + shift
        return -target @ (logits - np.log(np.exp(logits).sum()))

    at, small = np.array(logprobs["a"]), 1e-6
    rows = rows_of(batch, "a")
    assert [row.trajectory.text for row in rows] == list(scale.choices)
    for i, row in enumerate(rows):
        change = np.eye(len(at))[i] * small
        slope = (cross_entropy(at + change) - cross_entropy(at - change)) / (2 * small)
        assert row.weight * row.advantage == pytest.approx(-slope, abs=1e-7)
        assert row.trajectory == Continuation(
            row.trajectory.chat, row.trajectory.text, at[i], shift[i]
        )
        assert row.clip and row.key == ""
    assert sum(row.advantage for row in rows) == pytest.approx(0.0, abs=1e-12)


def test_the_loss_that_is_read_is_the_divergence_from_the_outcome():
    points = {"a": 7 / 64, "b": 15 / 64, "c": 0.25, "d": 0.0}
    perfect = {
        key: np.log(np.maximum(VARIANCE.two_hot(point), 1e-30)).tolist()
        for key, point in points.items()
    }
    batch = step(metis(), Scripted({}, PASSED, perfect))
    assert batch.metrics["loss/judge"] == pytest.approx(0.0, abs=1e-9)
    even = step(metis(), Scripted({}, PASSED, alike(VARIANCE)))
    hot = [target[target > 0] for target in map(VARIANCE.two_hot, points.values())]
    wanted = [np.log(11) + float(np.sum(y * np.log(y))) for y in hot]
    assert even.metrics["loss/judge"] == pytest.approx(np.mean(wanted))
    rewards = [np.mean([1 - (4 * (g - v)) ** 2 for g in GRID]) for v in points.values()]
    assert even.metrics["judge/reward"] == pytest.approx(np.mean(rewards))
    assert even.metrics["judge/entropy"] == pytest.approx(np.log(11))


def test_it_ranks_by_the_expected_variance():
    def peaked(value):
        return [0.0 if g == value else -9.0 for g in GRID]

    logprobs = {"a": peaked(0.02), "b": peaked(0.2), "c": peaked(0.25), "d": peaked(0.0)}
    batch = step(metis(batch=2, multiplier=2), Scripted({}, PASSED, logprobs))
    assert {group.prompt.id for group in batch.groups} == {"b", "c"}
    decisions = {decision.prompt.id: decision for decision in batch.decisions}
    expected = softmax(np.array(peaked(0.2))) @ np.array(GRID)
    assert decisions["b"].score == pytest.approx(expected)
    assert decisions["b"].distribution["0.20"] > 0.99
    assert sum(decisions["b"].distribution.values()) == pytest.approx(1.0)
    assert batch.metrics["judge/at_maximum"] == 0.25


def test_continuous_rewards_are_judged_by_rank_and_others_by_the_variance():
    """Of v = 0 < 7/64 < 15/64 < 1/4 the third rank is the middle of the last quarter."""
    for rewards, expected in (
        ("binary", {"d": 0.0, "a": 7 / 64, "b": 15 / 64, "c": 0.25}),
        ("continuous", {"d": 0.03125, "a": 0.09375, "b": 0.15625, "c": 0.21875}),
    ):
        curriculum = metis(explore=1.0)
        pool = Pool(PROMPTS, rewards=rewards)
        batch = step(curriculum, Scripted({}, PASSED, alike(VARIANCE)), pool=pool)
        for key, point in expected.items():
            advantages = [row.advantage for row in rows_of(batch, key)]
            assert advantages == pytest.approx(VARIANCE.two_hot(point) - 1 / 11)
        targets = sorted(outcome.target for outcome in curriculum.skill.outcomes)
        assert targets == pytest.approx(sorted(expected.values()))


def test_passes_are_asked_for_as_counts_and_shown_as_counts():
    curriculum, pool = (
        metis({"scale": "passes", "examples": 3}, batch=2, multiplier=2),
        Pool(LETTERS),
    )
    engine = Scripted({}, {prompt.id: 3 for prompt in LETTERS}, alike(PASSES))
    batch = step(curriculum, engine, 0, pool)
    assert engine.asked[0].choices == PASSES.choices == curriculum.needs.choices
    assert all(d.score == pytest.approx(sum(PASSES.values) / 9) for d in batch.decisions)
    rows = [row.advantage for row in batch.judgments[:9]]
    assert rows == pytest.approx([y - 1 / 9 for y in PASSES.two_hot(3.0)])
    step(curriculum, engine, 1, pool)
    assert engine.asked[2].chats[0][2]["content"] == "3"


def test_continuous_rewards_are_asked_for_the_variance_whatever_the_scale():
    curriculum = metis({"scale": "passes"})
    engine = Scripted({}, PASSED, alike(VARIANCE))
    step(curriculum, engine, pool=Pool(PROMPTS, rewards="continuous"))
    assert engine.asked[0].choices == VARIANCE.choices


def test_it_judges_from_the_first_step_without_exemplars_and_bounds_its_gradient():
    engine = Scripted({}, PASSED, alike(VARIANCE))
    batch = step(metis({"examples": 3, "share": 0.3}), engine)
    assert [message["role"] for message in engine.asked[0].chats[0]] == ["system", "user"]
    assert batch.judgments and batch.gradient_share == 0.3
    assert step(metis(), engine).gradient_share == Direct().share > 0


@pytest.mark.parametrize(
    ("bad", "failure"), [(float("nan"), "not a number"), (float("-inf"), "does not fit")]
)
def test_scores_that_are_no_numbers_are_a_failure_not_a_crash(bad, failure):
    logprobs = {**alike(VARIANCE), "d": [bad] * 11}
    curriculum = metis()
    batch = step(curriculum, Scripted({}, PASSED, logprobs))
    failed = next(decision for decision in batch.decisions if decision.prompt.id == "d")
    assert (failed.score, failed.failure) == (None, failure)
    assert "d" not in {row.prompt.id for row in batch.judgments}
    assert batch.metrics[f"judge/failure_{failure.replace(' ', '_')}"] == 0.25
    assert np.isfinite(curriculum.judge.offsets).all()


def test_what_was_too_long_to_be_asked_ranks_last():
    logprobs = {**alike(VARIANCE), "c": [float("-inf")] * 11}
    batch = step(metis(batch=3, multiplier=2), Scripted({}, PASSED, logprobs))
    assert not next(d for d in batch.decisions if d.prompt.id == "c").chosen
    assert not batch.notices
    nothing = alike(VARIANCE, float("-inf"))
    batch = step(metis(batch=3, multiplier=2), Scripted({}, PASSED, nothing))
    assert len(batch.groups) == 3 and not batch.judgments
    assert "judge/reward" not in batch.metrics and len(batch.notices) == 1


# Outcomes of earlier steps, judged again


def test_outcomes_of_the_last_steps_are_judged_and_trained_on_again():
    curriculum, pool = metis({"replay": 3}, batch=2, multiplier=2), Pool(LETTERS)
    engine = Scripted({}, {prompt.id: 4 for prompt in LETTERS}, alike(VARIANCE))
    first = step(curriculum, engine, 0, pool)
    assert {row.key for row in first.judgments} == {""}
    second = step(curriculum, engine, 1, pool)
    again = {row.prompt.id for row in second.judgments if row.key}
    assert again == {group.prompt.id for group in first.groups}
    assert not again & {decision.prompt.id for decision in second.decisions}
    assert {row.key for row in second.judgments} == {"", "step 0"}
    for number in range(2, 12):
        batch = step(curriculum, engine, number, pool)
        assert len({(row.prompt.id, row.key) for row in batch.judgments if row.key}) <= 3
    steps = {int(row.key.split()[1]) for row in batch.judgments if row.key}
    assert steps and min(steps) >= 11 - 8


def test_what_is_replayed_earns_no_reward_and_is_no_candidate():
    passed = {prompt.id: i % 9 for i, prompt in enumerate(LETTERS)}
    seconds = []
    for replay in (0, 4):
        curriculum, pool = metis({"replay": replay}), Pool(LETTERS)
        engine = Scripted({}, passed, alike(VARIANCE))
        seconds.append([step(curriculum, engine, number, pool) for number in range(2)][1])
    plain, again = seconds
    assert again.metrics["judge/reward"] == plain.metrics["judge/reward"]
    assert again.decisions == plain.decisions
    assert len(again.judgments) == 2 * len(plain.judgments)


def test_as_many_are_replayed_as_are_rolled_out_and_64_at_least():
    assert [Direct().needs(batch).replay for batch in (8, 64, 256)] == [64, 64, 256]
    assert Direct(replay=4).needs(256).replay == 4 and Direct(replay=0).needs(256).replay == 0


def test_nothing_that_is_judged_is_shown():
    twins = [Prompt(f"{prompt.id}2", prompt.text) for prompt in LETTERS]
    pool = Pool([*LETTERS, *twins])
    curriculum = metis({"examples": 3, "replay": None}, batch=3, multiplier=2)
    passed = {p.id: i % 9 for i, p in enumerate(pool.prompts)}
    engine = Scripted({}, passed, alike(VARIANCE))
    for number in range(24):
        batch = step(curriculum, engine, number, pool)
        chats = engine.asked[-2].chats
        shown = [message["content"] for message in chats[0][1:-1] if message["role"] == "user"]
        assert not set(shown) & {chat[-1]["content"] for chat in chats}
        assert len(shown) == len(set(shown)) == len(batch.exemplars)


def test_exemplars_come_from_four_steps_in_random_order():
    curriculum, pool = metis({"examples": 3}, multiplier=2), Pool(LETTERS)
    engine = Scripted({}, {p.id: i % 9 for i, p in enumerate(LETTERS)}, alike(VARIANCE))
    sorted_, steps = set(), set()
    for number in range(24):
        batch = step(curriculum, engine, number, pool)
        values = [each.value for each in batch.exemplars]
        sorted_.add(values == sorted(values))
        steps |= {number + 1 - each.step for each in batch.exemplars}
    assert sorted_ == {True, False} and steps == {1, 2, 3, 4}


def test_the_newest_informative_outcome_is_shown_until_there_is_a_newer_one():
    prompts = [Prompt(chr(200 + i), f"text of {chr(200 + i)}") for i in range(56)]
    curriculum, pool = metis({"examples": 3}, batch=2, multiplier=2), Pool(prompts)
    engine = Scripted({}, {p.id: 4 for p in prompts}, {p.id: [-2.0] * 11 for p in prompts})
    step(curriculum, engine, 0, pool)
    engine.passed = dict.fromkeys(engine.passed, 0)
    found = [step(curriculum, engine, number, pool).exemplars for number in range(1, 14)]
    assert [max(each.value for each in shown) for shown in found] == [0.25] * 13


# The share of the judgments that an update trains on


def judgments_of(count):
    """Judgments of this step and replayed ones of the same prompts, eleven rows each."""
    return [
        Judgment(
            Prompt(f"prompt {i // 2}", "?"),
            Continuation(CHAT, text, -1.0),
            0.1,
            key="step 1" * (i % 2),
        )
        for i in range(count)
        for text in VARIANCE.choices
    ]


@given(count=st.integers(0, 12), share=st.floats(0.01, 1.0), seed=st.integers(0, 9))
def test_a_subsample_has_whole_judgments_in_their_order(count, share, seed):
    rows = judgments_of(count)
    kept = subsample_judgments(rows, share, random.Random(seed))
    assert [row for row in rows if row in kept] == list(kept)
    sizes = Counter((row.prompt.id, row.key) for row in kept)
    assert set(sizes.values()) <= {len(VARIANCE.choices)}
    assert len(sizes) == min(count, max(1, round(share * count)))


def test_the_mean_over_a_subsample_is_unbiased():
    rows, drawn, repeats = judgments_of(8), Counter(), 4000
    rng = random.Random(0)
    for _ in range(repeats):
        drawn.update({(row.prompt.id, row.key) for row in subsample_judgments(rows, 0.25, rng)})
    assert len(drawn) == 8
    for count in drawn.values():
        assert count / repeats == pytest.approx(0.25, abs=0.03)


def test_a_share_of_one_trains_on_all():
    rows = judgments_of(3)
    assert subsample_judgments(rows, 1.0, random.Random(0)) is rows


def test_a_share_of_the_judgments_is_trained_on_and_all_else_is_as_before():
    """Replayed ones included; what is learnt outside the network is learnt from all of them."""

    def two_steps(train):
        curriculum = metis({"replay": 4, "train": train}, multiplier=2)
        engine = Scripted({}, {prompt.id: 4 for prompt in LETTERS}, alike(VARIANCE))
        pool = Pool(LETTERS)
        batches = [step(curriculum, engine, number, pool) for number in range(2)]
        return curriculum, [{(row.prompt.id, row.key) for row in b.judgments} for b in batches]

    (whole, every), (quarter, some) = two_steps(1.0), two_steps(0.25)
    assert [len(keys) for keys in every] == [4, 8]
    assert [len(keys) for keys in some] == [1, 2]
    assert all(kept < keys for kept, keys in zip(some, every, strict=True))
    assert quarter.judge.offsets == whole.judge.offsets != []
    assert quarter.judge.memory == whole.judge.memory
    assert two_steps(0.25)[1] == some, "drawn by seed and step"


# Offsets: what all prompts have in common is learnt outside the network


def labels(count, point, seed=0):
    logprobs = np.random.default_rng(seed).normal(-2, 1, (count, 11))
    return logprobs, np.tile(VARIANCE.two_hot(point), (count, 1))


def test_one_move_by_hand():
    logprobs, targets = np.log([[0.5, 0.25, 0.25]]), np.array([[0.0, 1.0, 0.0]])
    raw = 0.5 * (np.log([1.0, 2.0, 1.0]) - np.log([1.5, 1.25, 1.25]))  # smoothed by 1 of 1 rows
    assert updated_offsets([], [(0, logprobs, targets)]) == pytest.approx(
        (raw - raw.mean()).tolist()
    )


def test_repeated_moves_bring_the_mean_prediction_to_the_mean_outcome():
    low, high = labels(60, 0.0, 1), labels(60, 0.25, 2)
    offsets: list[float] = []
    for _ in range(60):
        offsets = updated_offsets(offsets, [(0, *low), (1, *high)])
    everything = np.concatenate([low[0], high[0]])
    mean = softmax(everything + np.array(offsets)).mean(axis=0)
    assert mean[[0, 10]] == pytest.approx([0.5, 0.5], abs=0.05)


def test_they_sum_to_zero_and_stay_bounded_whatever_happens():
    offsets: list[float] = []
    for _ in range(200):
        offsets = updated_offsets(offsets, [(0, *labels(200, 0.0))])
        assert max(map(abs, offsets)) <= LARGEST and np.isfinite(offsets).all()
    assert np.mean(offsets) == pytest.approx(0.0, abs=0.5)
    assert updated_offsets(offsets, []) == offsets


def test_a_run_of_dead_steps_does_not_bury_the_rest_of_the_scale():
    """The study saw 0.095 fall to 0.00006 in five steps without smoothing by the rows."""
    offsets: list[float] = []
    for number in range(5):
        offsets = updated_offsets(offsets, [(s, *labels(16, 0.0, s)) for s in range(number + 1)])
    v_hat = softmax(labels(16, 0.0, 9)[0] + np.array(offsets)) @ np.array(VARIANCE.values)
    assert v_hat.mean() > 0.0005


def test_offsets_move_with_every_step_and_shift_the_predictions_of_the_next():
    curriculum, pool = metis(), Pool(LETTERS)
    engine = Scripted({}, {prompt.id: 0 for prompt in LETTERS}, alike(VARIANCE))
    scores = []
    for number in range(12):
        batch = step(curriculum, engine, number, pool)
        scores.append(batch.decisions[0].score)
    assert scores[0] == pytest.approx(np.mean(GRID))
    assert sorted(set(scores), reverse=True) == scores
    assert [number for number, _, _ in curriculum.judge.labels] == list(range(4, 12))


# Knobs and state


def test_it_asks_for_scores_alone():
    for scale in (VARIANCE, PASSES):
        needs = Direct(scale=scale.name).needs(8)
        assert (needs.requests, needs.choices) == ({Score}, scale.choices)
        assert needs.judges and needs.sampling is None


def test_saved_it_goes_on_the_same(tmp_path):
    engine = Scripted({}, {p.id: i % 9 for i, p in enumerate(LETTERS)}, any_logprobs_of_all())
    pool, curriculum = Pool(LETTERS), metis({"examples": 2, "replay": 3}, multiplier=2)
    for number in range(3):
        step(curriculum, engine, number, pool)
    state.save_state(tmp_path / "state", {"c": curriculum.state_dict(), "p": pool.state_dict()})
    saved = state.load_state(tmp_path / "state")
    resumed, other = metis({"examples": 2, "replay": 3}, multiplier=2), Pool(LETTERS)
    resumed.load_state_dict(saved["c"])
    other.load_state_dict(saved["p"])
    for number in range(3, 6):
        one, two = step(curriculum, engine, number, pool), step(resumed, engine, number, other)
        assert one.decisions == two.decisions and one.judgments == two.judgments
    assert resumed.judge.offsets == curriculum.judge.offsets


def any_logprobs_of_all():
    draw = np.random.default_rng(5)
    return {prompt.id: draw.normal(-3, 2, 11).tolist() for prompt in LETTERS}


@pytest.mark.parametrize(
    ("knobs", "key"),
    [
        ({"examples": -1}, "examples = -1"),
        ({"replay": -1}, "replay = -1"),
        ({"share": -0.5}, "share = -0.5"),
        ({"share": float("nan")}, "share = nan"),
        ({"train": 0.0}, "train = 0.0"),
        ({"train": 1.5}, "train = 1.5"),
    ],
)
def test_impossible_knobs_are_refused_by_name(knobs, key):
    with pytest.raises(MetisError, match=rf"^curriculum\.judge\.{key}"):
        Direct(**knobs)
