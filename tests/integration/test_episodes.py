"""Episodes on a tiny model: what is trained on, and what a reward or a prompt can do to a step."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from metis.core import Batch, Prompt, Sampling, each_count
from metis.engines.local import engine as engines
from metis.engines.local.engine import LocalEngine
from metis.engines.local.generate.sampling import OwnSampler, SampledReply, ordered_replies
from metis.engines.local.model.policy import Policy
from metis.engines.local.rollouts import play, require_reward
from metis.engines.local.settings import LocalSettings
from metis.engines.rewards import RewardRunner
from metis.errors import MetisError, located
from metis.tasks.base import SingleTurn

PATIENCE = 30
"""Seconds until a test that waits for something that does not come is failed."""

ONE, TWO, THREE = (Prompt(name, f"What is {name}?") for name in ("one", "two", "three"))


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


@dataclass
class Questions:
    """A task of one turn; `score` is given the prompt and the answer."""

    score: object
    rewards: str = "continuous"

    def training(self):
        return [ONE, TWO]

    def heldout(self):
        return [THREE]

    def episode(self, prompt):
        return SingleTurn([user(prompt.text)], lambda answer: self.score(prompt, answer))


@dataclass
class Interview:
    """An episode of several turns; it ends when the questions do."""

    opening: str
    questions: list
    said: list = field(default_factory=list)

    @property
    def chat(self):
        return [{"role": "system", "content": "Be brief."}, user(self.opening)]

    def reply(self, text):
        self.said.append(text)
        if len(self.said) > len(self.questions):
            return None
        return [user(self.questions[len(self.said) - 1])]

    def reward(self):
        return len(self.said) / 10


class Asking(Interview):
    """An interview in which a function has the questions."""

    def reply(self, text):
        return self.questions(text)


class Interviews:
    """A task of several turns."""

    rewards = "continuous"

    def __init__(self, *questions):
        self.questions, self.played = questions, []

    def training(self):
        return [ONE, TWO]

    def heldout(self):
        return [THREE]

    def episode(self, prompt):
        self.played.append(Interview(prompt.text, list(self.questions)))
        return self.played[-1]


class Script:
    """A sampler that says what it is told to, turn after turn; an end is added unless cut."""

    def __init__(self, policy, *turns, cut=False):
        self.policy, self.turns, self.cut, self.calls = policy, list(turns), cut, []

    def __call__(self, prompts, copies, sampling):
        self.calls.append(([list(prompt) for prompt in prompts], copies))
        text = self.turns[min(len(self.calls), len(self.turns)) - 1]
        tokens = self.policy.encode_reply(text)
        tokens += [] if self.cut else [self.policy.tokenizer.eos_token_id]
        return enumerate(
            SampledReply(list(tokens), [-0.5] * len(tokens), "length" if self.cut else "stop")
            for _ in range(sum(each_count(copies, prompts)))
        )


@pytest.fixture
def closing():
    """Ends reward runners, and lets go of whatever their rewards still wait for."""
    made, release = [], threading.Event()

    def watch(make):
        owner = make()
        made.append(owner if isinstance(owner, RewardRunner) else owner.rewards)
        made[-1].release = release
        return owner

    yield watch
    release.set()
    for rewards in made:
        rewards.close()


@pytest.fixture
def runner(closing):
    return lambda timeout=PATIENCE, **options: closing(lambda: RewardRunner(timeout, **options))


@pytest.fixture
def engine(closing, settings, monkeypatch):
    """Makes an engine; what becomes of rewards before there is one is told in test_trial.py."""
    monkeypatch.setattr(engines, "trial_notices", lambda task, timeout: [])
    return lambda task: closing(lambda: LocalEngine(settings, task, seed=0))


@pytest.fixture
def playing(policy, runner):
    """Plays a task with a scripted policy."""

    def run(
        task,
        *turns,
        prompts=(ONE, TWO),
        n=2,
        rows=64,
        rewards=None,
        script=None,
        by=policy,
        limit=0,
    ):
        sampler = script or Script(by, *(turns or ("a",)))
        rewards = rewards or runner()
        groups, run.errors = play(
            by, task, prompts, n, Sampling(8), sampler, rewards, rows, 5, limit
        )
        return groups

    return run


def half(prompt, answer):
    return 0.5


def logprobs(policy, tokens):
    """The log-probability of each token but the first, by one plain forward pass."""
    with torch.no_grad():
        logits = policy.network(torch.tensor([list(tokens)])).logits[0, :-1]
    chosen = torch.tensor(list(tokens[1:]))
    return torch.log_softmax(logits.float(), dim=1).gather(1, chosen[:, None])[:, 0].numpy()


# What a trajectory is made of


def test_one_turn_is_the_prompt_and_the_sampled_answer(engine, settings):
    answers = []
    task = Questions(lambda prompt, answer: answers.append((prompt.id, answer)) or 0.25)
    local = engine(task)
    groups = local.rollout([ONE, TWO], 3)
    assert [group.prompt for group in groups] == [ONE, TWO]
    policy = local.policy
    for group in groups:
        prompt = policy.encode_chat([user(group.prompt.text)])
        assert group.rewards == (0.25,) * 3 and group.failed == 0
        for trajectory in group.trajectories:
            tokens, mask = trajectory.tokens.tolist(), trajectory.loss_mask
            assert tokens[: len(prompt)] == prompt
            assert mask.tolist() == [False] * len(prompt) + [True] * (len(tokens) - len(prompt))
            assert 1 <= mask.sum() <= settings.max_tokens
            assert tokens[-1] in policy.stops or mask.sum() == settings.max_tokens
            assert (group.prompt.id, policy.decode(tokens[len(prompt) :])) in answers
            assert not trajectory.logprobs[~mask].any()
            expected = logprobs(policy, tokens)[mask[1:]]
            np.testing.assert_allclose(trajectory.logprobs[mask], expected, atol=1e-4)
            assert trajectory.policy == 0
    distinct = {tuple(t.tokens) for group in groups for t in group.trajectories}
    assert len(distinct) == 6


def test_two_turns_read_as_the_template_writes_them_and_only_the_answers_are_trained_on(
    policy, playing
):
    task = Interviews("And then?")
    groups = playing(task, "first", "second")
    assert [episode.said for episode in task.played] == [["first", "second"]] * 4
    for group in groups:
        chat = [
            *Interview(group.prompt.text, []).chat,
            assistant("first"),
            user("And then?"),
            assistant("second"),
        ]
        whole = policy.tokenizer.apply_chat_template(chat, tokenize=True, return_dict=False)
        for trajectory in group.trajectories:
            tokens = trajectory.tokens.tolist()
            assert tokens == whole[: len(tokens)]
            assert policy.tokenizer.decode(whole[len(tokens) :]) == "\n"
            written = policy.tokenizer.decode(trajectory.tokens[trajectory.loss_mask])
            assert written == "first<|im_end|>second<|im_end|>"
            read = policy.tokenizer.decode(trajectory.tokens[~trajectory.loss_mask])
            assert "first" not in read and "second" not in read and "And then?" in read
            expected = np.where(trajectory.loss_mask, -0.5, 0.0)
            np.testing.assert_array_equal(trajectory.logprobs, expected)
            assert trajectory.policy == 5
        assert group.rewards == (0.2, 0.2)


def test_turns_are_in_the_transcript_with_their_roles(playing):
    tool = {"role": "tool", "content": "And then?"}

    def said(text):
        if text == "second":
            raise ValueError("no more")
        return [tool]

    task = Interviews()
    task.episode = lambda prompt: Asking(prompt.text, said)
    groups = playing(task, "first", "second", n=1)
    for group in groups:
        [transcript] = group.transcripts
        assert list(transcript.asked) == Interview(group.prompt.text, []).chat
        assert list(transcript.said) == [assistant("first"), tool, assistant("second")]
        assert transcript.reward is None and transcript.failure.startswith("ValueError: no more")
        assert transcript.tokens == len("first") + len("second") + 2, "and the ends"
        assert group.rewards == () and not transcript.truncated


def test_sampled_turns_have_the_log_probabilities_of_one_pass_over_the_whole(policy, playing):
    generator = torch.Generator().manual_seed(0)
    ends = []

    def sampler(prompts, copies, sampling):
        replies = ordered_replies(
            OwnSampler(policy, 3).sample(prompts, copies, sampling, generator)
        )
        for reply in replies:  # most end by their length: give all an end, as a trained policy does
            if reply.finish == "length":
                reply.tokens[-1] = policy.tokenizer.eos_token_id
                reply.logprobs[-1] = np.nan
            ends.append(reply)
        return enumerate(replies)

    groups = playing(Interviews("And then?", "And now?"), n=2, script=sampler)
    assert len(ends) == 12
    for group in groups:
        for trajectory in group.trajectories:
            mask = trajectory.loss_mask.copy()
            assert (trajectory.tokens[mask] == policy.tokenizer.eos_token_id).sum() == 3
            mask &= ~np.isnan(trajectory.logprobs)
            expected = logprobs(policy, trajectory.tokens)[mask[1:]]
            np.testing.assert_allclose(trajectory.logprobs[mask], expected, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 4, 64])
def test_each_prompt_may_have_its_own_number_of_episodes(policy, playing, rows):
    groups = playing(Interviews("And then?"), n=[3, 1], rows=rows)
    assert [group.prompt for group in groups] == [ONE, TWO]
    assert [(len(group.rewards), group.failed) for group in groups] == [(3, 0), (1, 0)]
    for group in groups:
        for trajectory in group.trajectories:
            assert group.prompt.text in policy.decode(trajectory.tokens.tolist())


def test_the_first_turn_is_sampled_together_and_later_ones_each_on_its_own(policy, playing):
    script = Script(policy, "a")
    playing(Interviews("And then?"), script=script, n=3)
    assert [(len(prompts), copies) for prompts, copies in script.calls] == [(2, 3), (6, 1)]


def test_copies_that_begin_differently_are_sampled_apart(policy, playing):
    class Varied(Questions):
        def episode(self, prompt):
            self.count = getattr(self, "count", 0) + 1
            return SingleTurn([user(f"{prompt.text} ({self.count})")], lambda answer: 0.5)

    script = Script(policy, "a")
    groups = playing(Varied(half), script=script)
    assert [(len(prompts), copies) for prompts, copies in script.calls] == [(4, 1)]
    numbers = [
        policy.decode(trajectory.tokens.tolist()).count(f"({i})")
        for i, trajectory in enumerate((t for g in groups for t in g.trajectories), start=1)
    ]
    assert numbers == [1, 1, 1, 1]


def test_episodes_are_not_compared_with_each_other(playing):
    class Unlike(SingleTurn):
        def __eq__(self, other):
            raise AssertionError("compared")

    class Task(Questions):
        def episode(self, prompt):
            return Unlike([user(prompt.text)], lambda answer: 0.5)

    groups = playing(Task(half), prompts=(ONE, ONE, TWO))
    assert [group.failed for group in groups] == [0, 0, 0]


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_a_few_rows_at_a_time_make_the_same_groups(playing, rows):
    def score(prompt, answer):
        return {"one": 0.1, "two": 0.2, "three": 0.3}[prompt.id]

    groups = playing(Questions(score), prompts=(ONE, TWO, THREE), rows=rows)
    assert [group.rewards for group in groups] == [(0.1, 0.1), (0.2, 0.2), (0.3, 0.3)]
    assert [group.prompt for group in groups] == [ONE, TWO, THREE]


def test_an_answer_cut_short_is_ended_by_the_template_and_its_end_is_not_trained_on(
    policy, playing
):
    script = Script(policy, "first", "second", cut=True)
    [group] = playing(Interviews("And then?"), prompts=[ONE], n=1, script=script)
    [trajectory] = group.trajectories
    chat = [*Interview(ONE.text, []).chat, assistant("first"), user("And then?")]
    context = policy.encode_chat(chat)
    assert trajectory.tokens.tolist() == context + policy.encode_reply("second")
    assert policy.tokenizer.decode(trajectory.tokens[trajectory.loss_mask]) == "firstsecond"
    assert group.cut_off == 1
    assert [whole.cut_off for whole in playing(Interviews("And then?"), "whole")] == [0, 0]


@pytest.mark.parametrize(
    "said",
    [
        "first",
        " first ",
        "What is one?",
        "",
        "\n",
        "im_end",
    ],
)
def test_whatever_is_said_the_next_turn_reads_as_the_template_writes_it(policy, playing, said):
    [group] = playing(Interviews("And then?"), said, "second", prompts=[ONE], n=1)
    chat = [*Interview(ONE.text, []).chat, assistant(said), user("And then?")]
    expected = [*policy.encode_chat(chat), *policy.encode_reply("second")]
    expected += [policy.tokenizer.eos_token_id]
    assert group.trajectories[0].tokens.tolist() == expected


# Rewards


def test_a_reward_may_be_a_coroutine(playing):
    async def score(prompt, answer):
        await asyncio.sleep(0)
        return 0.75 if answer == "a" else 0.0

    assert [group.rewards for group in playing(Questions(score))] == [(0.75, 0.75)] * 2


def test_a_reward_may_be_a_whole_number_or_a_boolean(playing):
    values = {"one": 1, "two": True}
    groups = playing(Questions(lambda prompt, answer: values[prompt.id]))
    assert [group.rewards for group in groups] == [(1.0, 1.0)] * 2


def test_plain_rewards_run_at_the_same_time(playing):
    barrier = threading.Barrier(4)

    def score(prompt, answer):
        barrier.wait(PATIENCE)
        return 1.0

    assert [group.failed for group in playing(Questions(score))] == [0, 0]


def test_coroutines_run_at_the_same_time(playing):
    begun = []

    async def score(prompt, answer):
        begun.append(prompt)
        while len(begun) < 40:
            await asyncio.sleep(0.001)
        return 1.0

    assert [group.failed for group in playing(Questions(score), n=20)] == [0, 0]


def test_as_many_rewards_run_at_a_time_as_there_are_workers(playing, runner):
    running, most = [], []

    async def score(prompt, answer):
        running.append(prompt)
        most.append(len(running))
        await asyncio.sleep(0.02)
        running.pop()
        return 1.0

    assert [g.failed for g in playing(Questions(score), n=6, rewards=runner(workers=3))] == [0, 0]
    assert max(most) == 3


def test_there_is_at_least_one_worker():
    with pytest.raises(MetisError, match=r"engine.reward_workers = 0: use at least 1"):
        LocalSettings(reward_workers=0)


def test_rewards_run_while_the_next_prompts_are_generated(policy, playing):
    rewarded, generating = threading.Event(), threading.Event()

    def score(prompt, answer):
        if prompt == ONE:
            assert generating.wait(PATIENCE)
            rewarded.set()
        return 1.0

    class Waiting(Script):
        def __call__(self, *arguments):
            if self.calls:
                generating.set()
                assert rewarded.wait(PATIENCE)
            return super().__call__(*arguments)

    groups = playing(Questions(score), script=Waiting(policy, "a"), rows=2)
    assert [group.failed for group in groups] == [0, 0]


def test_rewards_run_while_other_answers_to_the_prompt_are_generated(policy, playing):
    rewarded = threading.Event()

    class OneByOne(Script):
        def __call__(self, prompts, copies, sampling):
            replies = list(super().__call__(prompts, copies, sampling))
            yield replies.pop()
            assert rewarded.wait(PATIENCE)
            yield from replies

    def score(prompt, answer):
        rewarded.set()
        return 1.0

    groups = playing(Questions(score), script=OneByOne(policy, "a"))
    assert [group.rewards for group in groups] == [(1.0, 1.0)] * 2


def breaks(*_):
    raise ZeroDivisionError


async def breaks_later(prompt, answer):
    await asyncio.sleep(0)
    raise ZeroDivisionError


@pytest.mark.parametrize("bad", [breaks, breaks_later, lambda *_: "much", lambda *_: None])
def test_a_reward_that_fails_takes_only_its_rollout_with_it(playing, bad):
    calls = []

    def score(prompt, answer):
        calls.append(prompt)
        return bad(prompt, answer) if prompt == ONE and calls.count(ONE) == 1 else 0.5

    first, second = playing(Questions(score), n=3)
    assert (first.rewards, first.failed, len(first.trajectories)) == ((0.5, 0.5), 1, 2)
    assert (second.rewards, second.failed) == ((0.5,) * 3, 0)


def test_a_reward_that_hangs_takes_only_its_rollout_with_it(playing, runner):
    rewards = runner(timeout=2.0)

    def score(prompt, answer):
        if prompt == ONE:
            rewards.release.wait()
        return 0.5

    first, second = playing(Questions(score), rewards=rewards)
    assert (first.rewards, first.trajectories, first.failed) == ((), (), 2)
    assert second.failed == 0


def test_a_coroutine_that_hangs_is_cancelled(playing, runner):
    cancelled = []

    async def score(prompt, answer):
        if prompt == ONE:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(prompt)
                raise
        return 0.5

    first, second = playing(Questions(score), rewards=runner(timeout=2.0))
    assert (first.failed, second.failed) == (2, 0)
    patience = time.monotonic() + PATIENCE
    while len(cancelled) < 2 and time.monotonic() < patience:
        time.sleep(0.001)
    assert cancelled == [ONE, ONE]


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_rewards_that_hang_do_not_hold_up_later_ones(playing, runner, kind):
    rewards = runner(timeout=2.0, workers=2)

    def score(prompt, answer):
        if prompt == ONE:
            rewards.release.wait()
        return 0.5

    async def blocking(prompt, answer):
        return score(prompt, answer)

    task = Questions(score if kind == "function" else blocking)
    assert [group.failed for group in playing(task, prompts=[ONE], rewards=rewards)] == [2]
    assert "took longer than engine.reward_timeout = 2.0 seconds" in str(playing.errors[0])
    assert [group.failed for group in playing(task, prompts=[TWO], rewards=rewards)] == [0]
    assert [group.failed for group in playing(task, rewards=rewards)] == [2, 0]


def test_a_coroutine_that_blocks_takes_only_its_rollout_with_it(playing, runner):
    rewards = runner(timeout=1.0)

    async def score(prompt, answer):
        if prompt == ONE:
            rewards.release.wait()
        await asyncio.sleep(0.01)
        return 0.5

    first, second = playing(Questions(score), rewards=rewards, n=8)
    assert (first.failed, second.failed) == (8, 0)


@pytest.mark.parametrize("reward", ["sys.exit", "lambda answer: threading.Event().wait()", "hang"])
def test_neither_exit_nor_a_reward_that_hangs_keeps_a_process_from_its_end(reward):
    program = f"""
import sys, threading, time
from metis.engines.rewards import RewardRunner
from metis.tasks.base import SingleTurn

async def hang(answer):
    time.sleep(3600)

rewards = RewardRunner(0.05)
assert isinstance(rewards.result(rewards.submit(SingleTurn([], {reward}))), BaseException)
assert rewards.result(rewards.submit(SingleTurn([], lambda answer: 1))).score == 1.0
"""
    subprocess.run([sys.executable, "-c", program], timeout=PATIENCE, check=True)


def test_a_step_with_failed_rewards_can_be_trained_on(engine):
    def score(prompt, answer):
        if prompt == ONE:
            raise ZeroDivisionError
        return float(len(answer) % 2)

    local = engine(Questions(score))
    groups = local.rollout([ONE, TWO], 4)
    assert [group.failed for group in groups] == [4, 0]
    metrics = local.update(Batch(groups=tuple(groups)))
    assert all(np.isfinite(value) for value in metrics.values())
    assert local.version == 1


def test_a_held_out_prompt_whose_reward_fails_is_told_from_one_that_earns_nothing(engine):
    assert engine(Questions(breaks)).evaluate() == [("three", None)]
    assert engine(Questions(lambda prompt, answer: 0.0)).evaluate() == [("three", 0.0)]


@pytest.mark.parametrize("questions", [(), ("And now?",)])
def test_a_test_counts_the_prompts_that_are_answered(engine, monkeypatch, questions):
    """Once each, whatever the turns; rollouts are not counted."""
    prompts, counted = [ONE, TWO, THREE], []
    task = Interviews(*questions)
    monkeypatch.setattr(task, "heldout", lambda: prompts)
    played = engine(task)
    played.evaluate(lambda done, total: counted.append((done, total)))
    assert sorted(counted) == [(1, 3), (2, 3), (3, 3)]
    played.rollout(prompts, 2)
    assert len(counted) == 3


def test_what_failed_rollouts_wrote_is_counted(policy, playing):
    said = len(policy.encode_reply("ab")) + 1
    first, second = playing(Questions(lambda p, _: breaks() if p == ONE else 0.5), "ab", n=3)
    assert (first.failed, first.failed_tokens, second.failed_tokens) == (3, 3 * said, 0)


class Breaking(Interviews):
    """Episodes of the first prompt go wrong in their second turn, as `wrong` says."""

    def __init__(self, wrong):
        super().__init__("And then?", "And now?")
        self.wrong = wrong

    def episode(self, prompt):
        episode = super().episode(prompt)
        reply = episode.reply
        if prompt == ONE:
            episode.reply = lambda text: self.wrong() if episode.said else reply(text)
        return episode


@pytest.mark.parametrize("wrong", [breaks, lambda: "nothing", lambda: [{}], lambda: 3])
def test_a_turn_that_fails_takes_only_its_rollout_with_it(policy, playing, wrong):
    first, second = playing(Breaking(wrong), "ab")
    said = len(policy.encode_reply("ab")) + 1
    assert (first.failed, first.failed_tokens) == (2, 2 * 2 * said)
    assert (second.rewards, second.failed) == ((0.3, 0.3), 0)
    assert len(playing.errors) == 2


def test_a_turn_that_hangs_takes_only_its_rollout_with_it(playing, runner):
    rewards = runner(timeout=2.0)
    first, second = playing(Breaking(rewards.release.wait), rewards=rewards)
    assert (first.failed, second.failed) == (2, 0)
    assert "turn took longer than engine.reward_timeout = 2.0 seconds" in str(playing.errors[0])


def test_turns_do_not_wait_for_rewards(policy, playing, runner):
    generated = threading.Event()

    class Waiting(Interview):
        def reward(self):
            return float(generated.wait(PATIENCE))

    class Task(Interviews):
        def episode(self, prompt):
            return Waiting(prompt.text, ["And then?"] if prompt == TWO else [])

    class Late(Script):
        def __call__(self, *arguments):
            if len(self.calls) == 2:
                generated.set()
            return super().__call__(*arguments)

    rewards = runner(workers=1)
    groups = playing(Task(), script=Late(policy, "a"), rewards=rewards, rows=2)
    assert [group.rewards for group in groups] == [(1.0, 1.0)] * 2


# What a task's mistakes are told


def line_of(function):
    return f"({__file__}, line {function.__code__.co_firstlineno + 1}, in {function.__name__})"


class Huge:
    def __float__(self):
        return float(10**400)

    def __repr__(self):
        return "huge"


@pytest.mark.parametrize("reward", [None, "much", float("nan"), float("inf"), Huge()])
def test_a_reward_that_is_no_number_fails_its_rollout_alone(engine, reward):
    local = engine(Questions(lambda prompt, answer: reward if prompt == ONE else 0.5))
    one, two = local.rollout([ONE, TWO], 2)
    assert (one.failed, one.rewards) == (2, ())
    assert (two.failed, two.rewards) == (0, (0.5, 0.5))
    assert f"the reward returned {reward!r}, not a" in local.notices[0]


def test_an_error_is_told_once_with_the_line_where_it_arose(engine):
    def score(prompt, answer):
        return json.loads("{") if prompt == ONE else 0.5

    local = engine(Questions(score))
    for _ in range(2):
        local.rollout([ONE, TWO], 2)
    [notice] = local.notices
    assert "a rollout failed: JSONDecodeError: Expecting property name" in notice
    assert line_of(score) in notice


def test_errors_of_other_kinds_are_told_too(engine):
    def score(prompt, answer):
        if prompt == ONE:
            raise ValueError(f"{len(answers)}\nis odd")
        return {"two": None, "three": 0.5}[prompt.id]

    answers = []
    local = engine(Questions(score))
    local.rollout([ONE, TWO, THREE], 2)
    first, second = local.notices
    assert "ValueError: 0 is odd (" in first
    assert "the reward returned None, not a number or a mapping with 'score'; more" in second
    answers.append(0)
    local.rollout([ONE, TWO, THREE], 2)
    assert len(local.notices) == 2


def test_an_error_without_words_or_with_too_many():
    assert located(ZeroDivisionError()) == "ZeroDivisionError"
    assert len(located(ValueError("many " * 1000))) < 350


def test_a_step_of_which_every_rollout_fails_ends_the_run_and_says_why(engine):
    local = engine(Questions(breaks))
    told = re.escape(f"ZeroDivisionError {line_of(breaks)}")
    with pytest.raises(MetisError, match=told):
        local.rollout([ONE, TWO], 2)
    assert local.rollout([], 2) == []


# What does not fit, and what is empty


def test_a_prompt_longer_than_the_context_fails_all_its_rollouts(engine):
    local = engine(Questions(half))
    long = Prompt("long", "x" * (local.policy.context + 1))
    groups = local.rollout([ONE, long, TWO], 2)
    assert [(group.failed, len(group.rewards)) for group in groups] == [(0, 2), (2, 0), (0, 2)]
    [alone] = local.rollout([long], 2)
    assert (alone.rewards, alone.trajectories, alone.failed) == ((), (), 2)
    [notice] = local.notices
    assert "TooLong" in notice and str(local.policy.context) in notice


def test_a_prompt_that_leaves_little_room_gets_a_short_answer(engine):
    local = engine(Questions(half))
    policy = local.policy
    frame = len(policy.encode_chat([user("")]))
    tight = Prompt("tight", "x" * (policy.context - frame - 2))
    [group] = local.rollout([tight], 2)
    assert group.failed == 0
    assert all(1 <= t.loss_mask.sum() <= 2 for t in group.trajectories)
    assert all(len(t.tokens) <= policy.context for t in group.trajectories)


def test_an_episode_that_outgrows_the_context_is_rewarded_as_it_stands(policy, playing):
    """It would be a way out of a bad reward otherwise."""

    class Mixed(Interviews):
        def episode(self, prompt):
            self.questions = ("y" * policy.context,) if prompt == ONE else ("And then?",)
            return super().episode(prompt)

    first, second = playing(Mixed())
    assert (first.rewards, first.failed, first.cut_off) == ((0.1, 0.1), 0, 2)
    assert (second.rewards, second.failed, second.cut_off) == ((0.2, 0.2), 0, 0)
    assert not playing.errors


@pytest.mark.parametrize("spare", [-1, 0, 1, 2])
def test_an_episode_goes_on_while_the_context_has_room_for_an_answer(policy, playing, spare):
    interviews = Interviews("")
    chat = interviews.episode(ONE).chat
    answer = policy.encode_reply("ab")
    frame = len(policy.encode_turn(chat, True, [user("")])) + len(policy.encode_chat(chat))
    left = policy.context - frame - len(answer) - 1
    interviews.questions = ("y" * (left - spare),)
    [group, _] = playing(interviews, "ab")
    turns = 1 + (spare > 0)
    assert (group.rewards, group.failed) == ((turns / 10, turns / 10), 0)
    assert group.cut_off == (0 if spare > 0 else 2)


def test_episodes_that_fill_the_context_turn_by_turn_are_rewarded(policy, playing):
    """No single turn is long."""
    question = "y" * (policy.context // 8)
    [first, second] = playing(Interviews(*[question] * 20))
    for group in (first, second):
        assert (group.failed, group.cut_off) == (0, 2)
        assert 0.2 < group.rewards[0] < 1.0


def test_an_episode_that_reaches_its_limit_is_rewarded_as_it_stands(policy, playing):
    whole = playing(Interviews("And then?", "And then?"))[0]
    asked = len(policy.encode_chat(Interviews().episode(ONE).chat))
    limit = len(whole.trajectories[0].tokens) - asked
    assert (whole.rewards, whole.cut_off) == ((0.3, 0.3), 0)
    for given, turns, written in ((limit + 1, 3, 6), (limit // 2, 2, 3), (limit // 3, 1, 2)):
        [cut, _] = playing(Interviews("And then?", "And then?"), limit=given)
        assert cut.rewards == (turns / 10, turns / 10)
        assert cut.cut_off == (0 if turns == 3 else 2)
        assert all(len(t.tokens) - asked <= given for t in cut.trajectories)
        assert cut.trajectories[0].loss_mask.sum() == written


def test_an_empty_answer_is_its_end_token(policy, playing):
    answers = []
    groups = playing(Questions(lambda prompt, answer: answers.append(answer) or 0.0), "")
    assert answers == [""] * 4
    for trajectory in (t for group in groups for t in group.trajectories):
        assert trajectory.tokens[trajectory.loss_mask].tolist() == [policy.tokenizer.eos_token_id]


# Other tokenizers


@pytest.fixture
def other(tiny, tmp_path, settings):
    """The tiny model with another chat template."""

    def make(template):
        folder = tmp_path / "other"
        shutil.copytree(tiny, folder)
        tokenizer = Policy(tiny, settings).tokenizer
        (folder / "chat_template.jinja").unlink(missing_ok=True)
        tokenizer.chat_template = template
        tokenizer.save_pretrained(folder)
        return Policy(folder, settings)

    return make


def test_a_tokenizer_without_template_and_padding(other, playing):
    policy = other(None)
    assert policy.tokenizer.pad_token is None
    assert policy.decode(policy.encode_chat([user("Hi.")])) == "user: Hi.\n\nassistant:"
    generator = torch.Generator().manual_seed(0)

    def sampler(prompts, copies, sampling):
        return OwnSampler(policy, 4).sample(prompts, copies, sampling, generator)

    groups = playing(Questions(half), prompts=(ONE, THREE), script=sampler, by=policy)
    for group in groups:
        prompt = policy.encode_chat([user(group.prompt.text)])
        for trajectory in group.trajectories:
            assert trajectory.tokens[~trajectory.loss_mask].tolist() == prompt
            expected = logprobs(policy, trajectory.tokens)[trajectory.loss_mask[1:]]
            sampled = trajectory.logprobs[trajectory.loss_mask]
            np.testing.assert_allclose(sampled, expected, atol=1e-4)


def test_two_turns_without_a_template(other, playing):
    policy = other(None)
    [group] = playing(Interviews("More?"), " yes", " no", prompts=[ONE], n=1, by=policy)
    text = policy.tokenizer.decode(group.trajectories[0].tokens)
    assert text == (
        "system: Be brief.\n\nuser: What is one?\n\nassistant: yes<|im_end|>\n\n"
        "user: More?\n\nassistant: no<|im_end|>"
    )


REWRITES = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and not loop.last %}(cut){% else %}{{ m.content }}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_a_template_that_rewrites_earlier_turns_is_refused(other, playing):
    groups = playing(Interviews("And then?"), "a", by=other(REWRITES))
    assert [group.failed for group in groups] == [2, 2]
    with pytest.raises(MetisError) as caught:
        require_reward(groups, playing.errors)
    assert "rewrites earlier turns" in str(caught.value) and "\n" not in str(caught.value)


def test_a_turn_that_cannot_be_encoded_fails_its_rollout_alone(policy, playing, monkeypatch):
    encode, made = policy.encode_turn, []

    def once_wrong(*turn):
        made.append(turn)
        if len(made) == 1:
            raise ValueError("no tokens for that")
        return encode(*turn)

    monkeypatch.setattr(policy, "encode_turn", once_wrong)
    groups = playing(Interviews("And then?"), "a", "b")
    assert [group.failed for group in groups] == [1, 0]
    assert [str(error) for error in playing.errors] == ["no tokens for that"]
    require_reward(groups, playing.errors)


def test_a_template_that_trims_answers_is_played(other, playing):
    trims = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    policy = other(trims)
    [group] = playing(Interviews("And then?"), " a ", " b ", prompts=[ONE], n=1, by=policy)
    [trajectory] = group.trajectories
    written = policy.tokenizer.decode(trajectory.tokens[trajectory.loss_mask])
    assert written == " a <|im_end|> b <|im_end|>"


def test_a_template_that_rewrites_earlier_turns_serves_single_turns(other, playing):
    groups = playing(Questions(half), by=other(REWRITES))
    assert [group.failed for group in groups] == [0, 0]
