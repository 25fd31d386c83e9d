"""METIS by hand: one step on four prompts, and each knob that differs between the presets."""

import json
import random

import numpy as np
import pytest
from metis.curricula.judge.preference import Preference
from metis.curricula.judge.presets import PAPER
from metis.curricula.judge.scale import GRID, PASSES, VARIANCE

from metis import Group, MetisError, Pool, Progress, Prompt, drive
from metis.core import Complete, Completion, Continuation, Engine, Rollout, Score, Trajectory
from metis.curricula.judge import Judge
from metis.curricula.metis import Metis
from metis.signal import judge_reward

PROMPTS = [Prompt(name, f"text of {name}") for name in "abcd"]


def trajectory(length: int = 4) -> Trajectory:
    mask = np.ones(length, dtype=bool)
    return Trajectory(np.arange(length), mask, np.zeros(length, np.float32), 0)


def passes(prompt: Prompt, k: int, n: int = 8) -> Group:
    rewards = (1.0,) * k + (0.0,) * (n - k)
    return Group(prompt, rewards, tuple(trajectory() for _ in rewards))


class Scripted(Engine):
    """An engine that replies from tables, by the candidate's name."""

    def __init__(self, replies=None, passed=None, logprobs=None):
        self.replies, self.passed, self.logprobs = replies or {}, passed or {}, logprobs or {}
        self.asked = []

    def complete(self, chats, sampling):
        self.asked.append(Complete(chats, sampling))
        texts = [self.replies[name(chat)] for chat in chats]
        return [Completion(text, trajectory(5), "stop") for text in texts]

    def score(self, chats, choices):
        self.asked.append(Score(chats, choices))
        return [self.logprobs[name(chat)] for chat in chats]

    def rollout(self, prompts, n):
        self.asked.append(Rollout(prompts, n))
        return [passes(prompt, self.passed[prompt.id], n) for prompt in prompts]


def name(chat) -> str:
    return chat[-1]["content"].rsplit("text of ", 1)[1][0]


def paper(**knobs) -> Metis:
    judge = Judge(**{**PAPER["judge"], **knobs.pop("judge", {})})
    sections = {"judge": judge, "preference": Preference(**PAPER["preference"])}
    return Metis(**{**PAPER, "batch": 2, "multiplier": 2, **sections, **knobs})


REPLIES = {
    "a": r"\boxed{0.12}",
    "b": r"\boxed{0.25}",
    "c": "I solve it: 37",
    "d": r"\boxed{0.02}",
}
PASSED = {"a": 1, "b": 3, "c": 4, "d": 8}


def test_one_step_of_the_paper_preset_by_hand():
    curriculum, engine = paper(), Scripted(REPLIES, PASSED)
    batch = drive(curriculum.step(Pool(PROMPTS), Progress(0)), engine)

    judged, rolled = engine.asked
    assert {name(chat) for chat in judged.chats} == set("abcd")  # line 3: all mB candidates
    assert (judged.sampling.max_tokens, judged.sampling.temperature) == (512, 1.0)
    assert Judge(temperature=0.7).sampling.temperature == 0.7
    assert {prompt.id for prompt in rolled.prompts} == {"a", "b"}  # line 4: 0.12 and 0.25
    assert rolled.n == 8  # line 5

    reward = {"a": judge_reward(0.12, 0.109375), "b": judge_reward(0.25, 0.234375)}
    mean = (reward["a"] + reward["b"]) / 2
    rows = {row.prompt.id: row for row in batch.judgments}
    assert rows.keys() == {"a", "b"}
    for key, row in rows.items():  # b = 0 at the first step; lambda = 0.01 over 5 tokens
        assert row.advantage == pytest.approx(reward[key])
        assert row.weight == pytest.approx(0.01 / 5)
        assert row.clip is False
    assert curriculum.experience.baseline == pytest.approx(0.05 * mean)  # line 7
    assert {(pair.prompt, pair.v) for pair in curriculum.experience.pairs} == {
        ("a", 0.109375),
        ("b", 0.234375),
    }
    assert batch.metrics["judge/failure_rate"] == 0.25
    assert batch.metrics["judge/reward"] == pytest.approx(mean)

    decisions = {decision.prompt.id: decision for decision in batch.decisions}
    assert [decisions[key].chosen for key in "abcd"] == [True, True, False, False]
    assert (decisions["c"].score, decisions["c"].failure) == (None, "no box")
    assert [decisions[key].propensity for key in "abcd"] == [1.0, 1.0, 0.0, 0.0]


def test_the_second_step_shows_what_the_first_one_realised():
    curriculum, engine, pool = paper(), Scripted(REPLIES, PASSED), Pool(PROMPTS)
    drive(curriculum.step(pool, Progress(0)), engine)
    drive(curriculum.step(pool, Progress(1)), engine)
    user = engine.asked[2].chats[0][-1]["content"]
    shown = user.split("[Candidate]")[0]
    assert shown.index("text of a") < shown.index("0.109") < shown.index("text of b")
    assert "REWARD_VARIANCE: 0.234" in shown
    assert "[Example 3]" not in shown
    asked = {name(chat) for chat in engine.asked[2].chats}
    assert asked == {"c", "d"}, "of a pool this small candidates are shown, and not judged then"


@pytest.mark.parametrize(("start", "expected"), [("zero", 0.04), ("first_batch", 0.8)])
def test_the_baseline_from_a_mean_reward_of_080(start, expected):
    v_hat = 0.25 - np.sqrt(0.2) / 4  # R = 0.8 against v = 0.25
    replies = dict.fromkeys("abcd", rf"\boxed{{{v_hat:.12f}}}")
    curriculum = paper(judge={"baseline": start})
    drive(curriculum.step(Pool(PROMPTS), Progress(0)), Scripted(replies, dict.fromkeys("abcd", 4)))
    assert curriculum.experience.baseline == pytest.approx(expected)


def test_a_failure_counts_as_zero_in_the_paper_and_scores_worst_when_ranked_last():
    replies = dict.fromkeys("abcd", "no judgment")
    engine = Scripted(replies, dict.fromkeys("abcd", 0))
    batch = drive(paper().step(Pool(PROMPTS), Progress(0)), engine)
    assert [row.advantage for row in batch.judgments] == [1.0, 1.0]  # full marks for v = 0
    batch = drive(paper(failures="last").step(Pool(PROMPTS), Progress(0)), engine)
    assert [row.advantage for row in batch.judgments] == [0.0, 0.0]  # b = 0, and R = 0
    assert batch.metrics["judge/reward"] == 0.0


def test_failures_are_pushed_down_even_when_there_is_nothing_else():
    curriculum = paper(failures="last")
    curriculum.experience.baseline = 0.8
    engine = Scripted(dict.fromkeys("abcd", "no judgment"), dict.fromkeys("abcd", 0))
    batch = drive(curriculum.step(Pool(PROMPTS), Progress(0)), engine)
    assert [row.advantage for row in batch.judgments] == [-0.1, -0.1]


def test_a_failure_ranked_last_loses_to_a_prediction_of_zero():
    replies = {"a": "?", "b": "?", "c": r"\boxed{0.00}", "d": r"\boxed{0.00}"}
    for seed in range(20):
        engine = Scripted(replies, PASSED)
        batch = drive(paper(failures="last").step(Pool(PROMPTS), Progress(0, seed=seed)), engine)
        assert {group.prompt.id for group in batch.groups} == {"c", "d"}


def test_a_failure_cannot_dominate_the_step():
    replies = {"a": r"\boxed{0.12}", "b": "?", "c": r"\boxed{0.18}", "d": r"\boxed{0.20}"}
    curriculum = paper(failures="last", batch=4, multiplier=1, judge={"baseline": "first_batch"})
    batch = drive(curriculum.step(Pool(PROMPTS), Progress(0)), Scripted(replies, PASSED))
    rewards = [judge_reward(*p) for p in ((0.12, 0.109375), (0.18, 0.25), (0.20, 0.0))] + [0.0]
    failed = next(row for row in batch.judgments if row.prompt.id == "b")
    assert failed.advantage == pytest.approx(-np.std(rewards))


def test_equal_predictions_choose_every_candidate_equally_often():
    replies = dict.fromkeys("abcd", r"\boxed{0.10}")
    counts = dict.fromkeys("abcd", 0)
    for seed in range(600):
        engine = Scripted(replies, PASSED)
        batch = drive(paper().step(Pool(PROMPTS), Progress(0, seed=seed)), engine)
        again = drive(paper().step(Pool(PROMPTS), Progress(0, seed=seed)), engine)
        chosen = [group.prompt.id for group in batch.groups]
        assert chosen == [group.prompt.id for group in again.groups]
        for key in chosen:
            counts[key] += 1
    assert all(abs(count - 300) < 5 * np.sqrt(150) for count in counts.values())


def test_the_exact_loss_has_the_gradient_of_the_expected_score():
    draw = random.Random(0)
    logprobs = {key: [draw.uniform(-4, 0) for _ in GRID] for key in "abcd"}
    curriculum = Metis(batch=4, multiplier=1, judge=Judge(loss="exact", weight=0.1))
    batch = drive(curriculum.step(Pool(PROMPTS), Progress(0)), Scripted({}, PASSED, logprobs))
    rows = [row for row in batch.judgments if row.prompt.id == "a"]
    assert [row.trajectory.text for row in rows] == list(VARIANCE.choices)
    assert all(isinstance(row.trajectory, Continuation) and row.weight == 0.1 for row in rows)
    assert (Judge(loss="exact").weight, Judge(mode="reason").weight) == (0.1, 0.01)
    assert Judge().weight == 1.0, "the cross-entropy is bounded by judge.share instead"

    def expected_reward(logits):
        weights = np.exp(logits) / np.exp(logits).sum()
        return sum(p * judge_reward(g, 0.109375) for p, g in zip(weights, GRID, strict=True))

    logits, step = np.array(logprobs["a"]), 1e-6
    for i, row in enumerate(rows):
        change = np.eye(len(GRID))[i] * step
        slope = (expected_reward(logits + change) - expected_reward(logits - change)) / (2 * step)
        assert row.advantage == pytest.approx(slope, abs=1e-8)


def test_direct_ranks_by_the_expected_value():
    def peaked(value):
        return [0.0 if g == value else -9.0 for g in GRID]

    logprobs = {"a": peaked(0.02), "b": peaked(0.2), "c": peaked(0.25), "d": peaked(0.0)}
    curriculum = Metis(batch=2, multiplier=2, explore=0.0, trial=0, judge=Judge(loss="reinforce"))
    batch = drive(curriculum.step(Pool(PROMPTS), Progress(0)), Scripted({}, PASSED, logprobs))
    assert {group.prompt.id for group in batch.groups} == {"b", "c"}


def test_a_sampled_choice_is_reinforced_against_the_others():
    """grad log q = grad log p_s - sum q_g grad log p_g, so the rows of a prompt sum to zero."""
    logprobs = {key: [-float(i) for i in range(len(GRID))] for key in "abcd"}
    judge = Judge(loss="reinforce", baseline="zero")
    curriculum = Metis(batch=4, multiplier=1, judge=judge)
    batch = drive(curriculum.step(Pool(PROMPTS), Progress(0)), Scripted({}, PASSED, logprobs))
    q = np.exp(logprobs["a"]) / np.exp(logprobs["a"]).sum()
    advantages = [row.advantage for row in batch.judgments if row.prompt.id == "a"]
    drawn = int(np.argmax(advantages))
    reward = judge_reward(GRID[drawn], 0.109375)
    assert advantages == pytest.approx(reward * (np.eye(len(GRID))[drawn] - q))
    assert sum(advantages) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("bad", "failure"), [(float("nan"), "not a number"), (float("-inf"), "does not fit")]
)
def test_scores_that_are_no_numbers_are_a_failure_not_a_crash(bad, failure):
    logprobs = {**dict.fromkeys("abc", [-1.0] * 11), "d": [bad] * 11}
    curriculum = Metis(batch=4, multiplier=1)
    batch = drive(curriculum.step(Pool(PROMPTS), Progress(0)), Scripted({}, PASSED, logprobs))
    failed = next(decision for decision in batch.decisions if decision.prompt.id == "d")
    assert (failed.score, failed.failure) == (None, failure)
    assert "d" not in {row.prompt.id for row in batch.judgments}


def test_continuous_rewards_are_judged_by_rank_unless_told_otherwise():
    logprobs = dict.fromkeys("abcd", [0.0] * 11)
    for target, rewards, expected in (
        ("auto", "binary", 0.25),
        ("auto", "continuous", 0.21875),
        ("variance", "continuous", 0.25),
    ):
        curriculum = Metis(batch=4, multiplier=1, judge=Judge(target=target))
        engine = Scripted({}, PASSED, logprobs)
        drive(curriculum.step(Pool(PROMPTS, rewards=rewards), Progress(0)), engine)
        outcome = next(o for o in curriculum.experience.outcomes if o.v == 0.25)
        assert outcome.target == pytest.approx(expected)


def test_rank_targets_follow_the_order_of_the_variances():
    replies = dict.fromkeys("abcd", r"\boxed{0.10}")
    curriculum = paper(batch=4, multiplier=1, judge={"target": "rank"})
    batch = drive(curriculum.step(Pool(PROMPTS), Progress(0)), Scripted(replies, PASSED))
    targets = {"d": 0.03125, "a": 0.09375, "b": 0.15625, "c": 0.21875}
    for row in batch.judgments:
        assert row.advantage == pytest.approx(judge_reward(0.10, targets[row.prompt.id]))


def flat(scale=VARIANCE):
    return dict.fromkeys("abcdefghijklmnopqrst", [-2.0] * len(scale.choices))


LETTERS = [Prompt(key, f"text of {key}") for key in "abcdefghijklmnopqrst"]


def test_in_direct_judging_starts_at_the_first_step_without_exemplars():
    curriculum, engine = (
        Metis(batch=2, multiplier=2),
        Scripted({}, dict.fromkeys(flat(), 4), flat()),
    )
    assert (curriculum.warmup, Metis(judge=Judge(mode="reason")).warmup) == (False, True)
    batch = drive(curriculum.step(Pool(LETTERS), Progress(0)), engine)
    assert [message["role"] for message in engine.asked[0].chats[0]] == ["system", "user"]
    assert batch.judgments and batch.judge_share == Judge().share > 0


def test_a_readout_has_neither_trial_nor_exemplars_unless_told_so():
    readout = Judge(mode="readout")
    plain, told = Metis(judge=readout), Metis(judge=readout, trial=16, examples=3)
    assert (plain.trial, plain.examples, plain.replay, plain.warmup) == (0, 0, 0, False)
    assert (told.trial, told.examples) == (16, 3)
    assert (Metis().trial, Metis().examples) == (16, 3)


def test_only_cross_entropy_is_trained_on_earlier_outcomes():
    assert Metis(replay=4, judge=Judge(loss="exact")).replay == 0
    assert Metis(replay=4, judge=Judge(mode="reason")).replay == 0
    assert (Metis(batch=256).replay, Metis(batch=8).replay, Metis(replay=4).replay) == (256, 64, 4)
    assert Judge(mode="reason", scale="passes").scale == "variance"


def test_a_share_of_the_judgments_is_trained_on_and_all_else_is_as_before():
    """Replayed ones included; what is learnt outside the network is learnt from all of them."""

    def two_steps(train):
        judge = Judge(train=train)
        curriculum = Metis(batch=4, multiplier=2, replay=4, examples=0, judge=judge)
        engine, pool = Scripted({}, dict.fromkeys(flat(), 4), flat()), Pool(LETTERS)
        batches = [drive(curriculum.step(pool, Progress(step)), engine) for step in range(2)]
        return curriculum, [{(row.prompt.id, row.key) for row in b.judgments} for b in batches]

    (whole, every), (quarter, some) = two_steps(1.0), two_steps(0.25)
    assert [len(keys) for keys in every] == [4, 8]
    assert [len(keys) for keys in some] == [1, 2]
    assert all(kept < keys for kept, keys in zip(some, every, strict=True))
    assert quarter.experience.offsets == whole.experience.offsets != []
    assert quarter.experience.pairs == whole.experience.pairs
    assert two_steps(0.25)[1] == some, "drawn by seed and step"


def test_outcomes_of_the_last_steps_are_judged_and_trained_on_again():
    curriculum, pool = Metis(batch=2, multiplier=2, replay=3, examples=0), Pool(LETTERS)
    engine = Scripted({}, dict.fromkeys(flat(), 4), flat())
    first = drive(curriculum.step(pool, Progress(0)), engine)
    assert {row.key for row in first.judgments} == {""}
    second = drive(curriculum.step(pool, Progress(1)), engine)
    again = {row.prompt.id for row in second.judgments if row.key}
    assert again == {group.prompt.id for group in first.groups}
    assert not again & {decision.prompt.id for decision in second.decisions}
    assert {row.key for row in second.judgments} == {"", "step 0"}
    for step in range(2, 12):
        batch = drive(curriculum.step(pool, Progress(step)), engine)
    steps = {int(row.key.split()[1]) for row in batch.judgments if row.key}
    assert steps and min(steps) >= 11 - 8


def test_nothing_that_is_judged_is_shown():
    twins = [Prompt(f"{prompt.id}2", prompt.text) for prompt in LETTERS]
    curriculum, pool = Metis(batch=3, multiplier=2), Pool([*LETTERS, *twins])
    passed = {p.id: i % 9 for i, p in enumerate(pool.prompts)}
    engine = Scripted({}, passed, flat())
    for step in range(24):
        drive(curriculum.step(pool, Progress(step)), engine)
        chats = engine.asked[-2].chats
        shown = {message["content"] for message in chats[0][1:-1] if message["role"] == "user"}
        assert not shown & {chat[-1]["content"] for chat in chats}
        assert len(shown) == sum(message["role"] == "user" for message in chats[0][1:-1])


def test_exemplars_come_in_random_order_unless_told_otherwise():
    orders = set()
    for order in ("shuffled", "ascending"):
        curriculum, pool = Metis(batch=4, multiplier=2, order=order, replay=0), Pool(LETTERS)
        engine = Scripted({}, {key: i % 9 for i, key in enumerate(flat())}, flat())
        for step in range(12):
            drive(curriculum.step(pool, Progress(step)), engine)
            turns = [m["content"] for m in engine.asked[-2].chats[0] if m["role"] == "assistant"]
            orders.add((order, turns == sorted(turns)))
    assert orders == {("shuffled", True), ("shuffled", False), ("ascending", True)}


def test_a_judge_of_passes_is_asked_for_counts_and_shown_counts():
    judge = Judge(scale="passes")
    curriculum, pool = Metis(batch=2, multiplier=2, judge=judge, replay=0), Pool(LETTERS)
    engine = Scripted({}, dict.fromkeys(flat(), 3), flat(PASSES))
    batch = drive(curriculum.step(pool, Progress(0)), engine)
    assert engine.asked[0].choices == PASSES.choices
    uniform = sum(PASSES.values) / 9
    assert all(d.score == pytest.approx(uniform) for d in batch.decisions)
    rows = [row.advantage for row in batch.judgments[:9]]
    assert rows == pytest.approx([y - 1 / 9 for y in PASSES.two_hot(3.0)])
    drive(curriculum.step(pool, Progress(1)), engine)
    assert engine.asked[2].chats[0][2]["content"] == "3"


def test_continuous_rewards_are_asked_for_the_variance_whatever_the_scale():
    curriculum = Metis(batch=2, multiplier=2, judge=Judge(scale="passes"))
    engine = Scripted({}, dict.fromkeys(flat(), 3), flat())
    drive(curriculum.step(Pool(LETTERS, rewards="continuous"), Progress(0)), engine)
    assert engine.asked[0].choices == VARIANCE.choices


def test_predictions_that_are_all_alike_are_told_of_once():
    curriculum, pool = Metis(batch=2, multiplier=2, replay=0), Pool(LETTERS)
    engine = Scripted({}, dict.fromkeys(flat(), 4), flat())
    batches = [drive(curriculum.step(pool, Progress(step)), engine) for step in range(9)]
    assert all(batch.metrics["judge/spread"] == pytest.approx(0.0) for batch in batches)
    told = [i for i, b in enumerate(batches) if any("nearly the same" in n for n in b.notices)]
    assert told == [4]


def test_no_lambda_no_rows():
    batch = drive(
        paper(judge={"weight": 0.0}).step(Pool(PROMPTS), Progress(0)), Scripted(REPLIES, PASSED)
    )
    assert batch.judgments == []


def test_warm_up_is_uniform_and_unjudged_until_something_varies():
    curriculum, pool = Metis(batch=2, multiplier=2, warmup=True), Pool(PROMPTS)
    dead = Scripted({}, dict.fromkeys("abcd", 0))
    for step in range(3):
        batch = drive(curriculum.step(pool, Progress(step)), dead)
        assert batch.metrics["select/warmup"] == 1.0
    assert all(isinstance(request, Rollout) for request in dead.asked)
    alive = Scripted({}, dict.fromkeys("abcd", 4), dict.fromkeys("abcd", [0.0] * 11))
    drive(curriculum.step(pool, Progress(3)), alive)
    batch = drive(curriculum.step(pool, Progress(4)), alive)
    assert "select/warmup" not in batch.metrics
    dead = Scripted({}, dict.fromkeys("abcd", 0), dict.fromkeys("abcd", [0.0] * 11))
    for step in range(5, 15):
        batch = drive(curriculum.step(pool, Progress(step)), dead)
        assert "select/warmup" not in batch.metrics, "a mastered pool does not warm up again"


def test_groups_without_a_variance_teach_the_judge_nothing():
    class Failing(Scripted):
        def rollout(self, prompts, n):
            return [Group(prompt, (1.0,), (trajectory(),), failed=n - 1) for prompt in prompts]

    curriculum = paper()
    batch = drive(curriculum.step(Pool(PROMPTS), Progress(0)), Failing(REPLIES))
    assert len(batch.groups) == 2
    assert (batch.judgments, curriculum.experience.pairs, curriculum.experience.baseline) == (
        [],
        [],
        None,
    )


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"multiplier": 0}, "curriculum.multiplier = 0"),
        ({"examples": -1}, "curriculum.examples = -1"),
        ({"batch": 0}, "batch = 0"),
        ({"group": 1}, "group = 1"),
        ({"explore": 1.5}, "curriculum.explore = 1.5"),
        ({"ema": 1.0}, "curriculum.ema = 1.0"),
        ({"memory": 0}, "curriculum.memory = 0"),
        ({"explore": 0.0}, "curriculum.trial = 16"),
        ({"replay": -1}, "curriculum.replay = -1"),
    ],
)
def test_impossible_knobs_are_refused_by_name(knobs, words):
    with pytest.raises(MetisError, match=words):
        Metis(**knobs)


def test_state_is_json_and_comes_back_typed():
    curriculum, engine, pool = paper(), Scripted(REPLIES, PASSED), Pool(PROMPTS)
    drive(curriculum.step(pool, Progress(0)), engine)
    saved = json.loads(json.dumps(curriculum.state_dict()))
    other = paper()
    other.load_state_dict(saved)
    assert other == curriculum
    assert other.experience.pairs[0].v == curriculum.experience.pairs[0].v


def test_what_was_too_long_to_be_asked_ranks_last_and_teaches_nothing():
    flat = [float(np.log(1 / len(GRID)))] * len(GRID)
    logprobs = {key: [*flat[:-1], -30.0] for key in "abd"}
    logprobs["c"] = [float("-inf")] * len(GRID)
    curriculum = Metis(batch=3, multiplier=2, explore=0.0, trial=0, examples=0)
    batch = drive(curriculum.step(Pool(PROMPTS), Progress(0)), Scripted({}, PASSED, logprobs))
    decisions = {decision.prompt.id: decision for decision in batch.decisions}
    assert not decisions["c"].chosen and decisions["c"].failure == "does not fit"
    assert batch.metrics["judge/failure_does_not_fit"] == 0.25 and not batch.notices
    logprobs = dict.fromkeys("abcd", logprobs["c"])
    batch = drive(curriculum.step(Pool(PROMPTS), Progress(0)), Scripted({}, PASSED, logprobs))
    assert len(batch.groups) == 3 and not batch.judgments
    assert "judge/reward" not in batch.metrics
    assert "4 of 4 judge prompts do not fit" in batch.notices[0]
