"""The arithmetic task: disjoint sets, repeatable problems, and the last number of a reply."""

import re
from collections import Counter

import pytest

from metis.errors import MetisError
from metis.tasks.arithmetic import DIGITS, Arithmetic, build
from metis.tasks.base import last_number


def sums(prompts):
    return [tuple(map(int, re.findall(r"\d+", prompt.text))) for prompt in prompts]


def reward(task, prompt, reply):
    episode = task.episode(prompt)
    assert episode.reply(reply) is None
    return episode.reward()


def test_the_sizes_are_as_asked_and_nothing_held_out_is_trained_on():
    task = build(Arithmetic(prompts=300, heldout=120, levels=(1, 2, 3)), 0)
    assert len(task.training()) == 300 and len(task.heldout()) == 120
    ids = [prompt.id for prompt in (*task.training(), *task.heldout())]
    assert len(set(ids)) == 420
    assert not set(sums(task.training())) & set(sums(task.heldout()))
    assert task.rewards == "binary"


def test_the_same_seed_makes_the_same_problems_and_another_makes_others():
    first, again, other = (build(Arithmetic(levels=(3, 4)), seed) for seed in (0, 0, 1))
    assert first.training() == again.training() and first.heldout() == again.heldout()
    assert first.training() != other.training()
    assert set(first.heldout()) != set(other.heldout())


@pytest.mark.parametrize("level", DIGITS)
def test_a_level_is_a_category_and_fixes_the_digits(level):
    task = build(Arithmetic(prompts=60, heldout=20, levels=(level,)), 0)
    for prompt, (a, b) in zip(task.training(), sums(task.training()), strict=True):
        assert prompt.category == f"level-{level}"
        assert (len(str(a)), len(str(b))) == DIGITS[level]


def test_levels_have_equal_shares_while_they_last():
    task = build(Arithmetic(prompts=200, heldout=100, levels=(2, 3, 5)), 0)
    problems = (*task.training(), *task.heldout())
    assert Counter(prompt.category for prompt in problems) == {
        "level-2": 100,
        "level-3": 100,
        "level-5": 100,
    }
    assert len(Counter(prompt.category for prompt in task.heldout())) == 3


def test_a_level_that_runs_out_leaves_its_share_to_the_others():
    task = build(Arithmetic(prompts=300, heldout=100, levels=(1, 4)), 0)
    problems = (*task.training(), *task.heldout())
    assert Counter(prompt.category for prompt in problems) == {"level-1": 100, "level-4": 300}


def test_every_problem_there_is_can_be_used():
    task = build(Arithmetic(prompts=60, heldout=40, levels=(1,)), 0)
    assert len({*sums(task.training()), *sums(task.heldout())}) == 100


def test_too_many_problems_are_refused():
    with pytest.raises(MetisError, match=r"task\.prompts \+ task\.heldout = 101: .* only 100 dif"):
        build(Arithmetic(prompts=61, heldout=40, levels=(1,)), 0)


def test_examples_are_solved_turns_before_every_question_and_none_of_the_problems():
    task = build(Arithmetic(prompts=60, heldout=20, examples=2, instruction="Be brief."), 0)
    for prompt in (*task.training(), *task.heldout()):
        *shown, question = task.episode(prompt).chat
        assert [turn["role"] for turn in shown] == ["user", "assistant"] * 2
        assert question == {"role": "user", "content": f"{prompt.text} Be brief."}
        for asked, solved in zip(shown[::2], shown[1::2], strict=True):
            a, b = map(int, re.findall(r"\d+", asked["content"]))
            assert solved["content"] == f"{a} + {b} = {a + b}"
            assert asked["content"] == f"What is {a} + {b}? Be brief."
            assert (a, b) not in sums([prompt])


def test_examples_count_among_the_problems_there_are():
    with pytest.raises(MetisError, match=r"task\.examples = 101: .* only 100 different"):
        build(Arithmetic(prompts=60, heldout=40, levels=(1,), examples=1), 0)


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"prompts": 0}, "task.prompts = 0"),
        ({"heldout": 0}, "task.heldout = 0"),
        ({"examples": -1}, "task.examples = -1"),
        ({"levels": ()}, "task.levels = []"),
        ({"levels": (0, 1)}, "task.levels = [0, 1]"),
        ({"levels": (16,)}, "task.levels = [16]"),
        ({"levels": (1, 1)}, "task.levels = [1, 1]"),
        ({"levels": (1, 2), "shares": (1.0,)}, "task.shares = [1.0]"),
        ({"levels": (1, 2), "shares": (1.0, 0.0)}, "task.shares = [1.0, 0.0]"),
        ({"levels": (1, 2), "heldout_shares": (1.0,)}, "task.heldout_shares = [1.0]"),
        ({"levels": (1, 2), "heldout_shares": (0.0, 0.0)}, "task.heldout_shares = [0.0, 0.0]"),
    ],
)
def test_bad_knobs_are_refused_by_name(knobs, words):
    with pytest.raises(MetisError) as caught:
        Arithmetic(**knobs)
    assert words in str(caught.value) and "use" in str(caught.value)


def test_the_question_and_its_instruction():
    task = build(Arithmetic(instruction="Think first."), 0)
    prompt = task.training()[0]
    [message] = task.episode(prompt).chat
    a, b = sums([prompt])[0]
    assert message == {"role": "user", "content": f"What is {a} + {b}? Think first."}
    [plain] = build(Arithmetic(), 0).episode(prompt).chat
    assert plain["content"] == prompt.text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", None),
        ("no number at all", None),
        ("-", None),
        ("42", 42),
        ("It is 42.", 42),
        ("First 3, then 4", 4),
        ("3 + 4 = 7", 7),
        ("3+4=7", 7),
        ("The answer is -5", -5),
        ("1,234", 1234),
        ("1,234,567 apples", 1234567),
        ("12,34", 34),
        ("3.50", 3.5),
        ("-0.25", -0.25),
        ("1,000.5", 1000.5),
        ("007", 7),
        ("**12**", 12),
        ("\\boxed{12}", 12),
        ("12\n\nDone!", 12),
        ("seven (7)", 7),
    ],
)
def test_the_last_number_of_a_reply(text, number):
    assert last_number(text) == number


def test_only_the_right_answer_earns_anything():
    task = build(Arithmetic(levels=(4,)), 0)
    prompt = task.training()[0]
    a, b = sums([prompt])[0]
    right = [f"{a + b}", f"{a} + {b} = {a + b}.", f"{a + b}.0", f"0{a + b}", f"{a + b:,}"]
    wrong = ["", "I do not know", f"{a + b + 1}", f"-{a + b}", f"{a + b}0", f"{a + b}, not {a}"]
    assert [reward(task, prompt, reply) for reply in right] == [1.0] * len(right)
    assert [reward(task, prompt, reply) for reply in wrong] == [0.0] * len(wrong)


def test_every_rollout_has_an_episode_of_its_own():
    task = build(Arithmetic(), 0)
    prompt = task.training()[0]
    answer = sum(sums([prompt])[0])
    first, second = task.episode(prompt), task.episode(prompt)
    first.reply(f"{answer}")
    second.reply("no idea")
    assert (first.reward(), second.reward()) == (1.0, 0.0)


def test_held_out_problems_are_scored_too():
    task = build(Arithmetic(), 0)
    for prompt, pair in zip(task.heldout(), sums(task.heldout()), strict=True):
        assert reward(task, prompt, f"{sum(pair)}") == 1.0


def test_levels_go_up_to_two_numbers_of_eight_digits():
    task = build(Arithmetic(prompts=30, heldout=1, levels=(15,)), 0)
    assert all(10**7 <= n < 10**8 for pair in sums(task.training()) for n in pair)


def test_shares_make_a_pool_as_hard_as_wanted():
    settings = Arithmetic(prompts=900, heldout=100, levels=(2, 4, 15), shares=(1, 1, 18))
    task = build(settings, 0)
    counts = Counter(prompt.category for prompt in (*task.training(), *task.heldout()))
    assert counts == {"level-2": 50, "level-4": 50, "level-15": 900}


def test_held_out_problems_may_have_shares_of_their_own():
    settings = Arithmetic(
        prompts=900, heldout=100, levels=(2, 4, 15), shares=(1, 1, 18), heldout_shares=(1, 1, 0)
    )
    task = build(settings, 0)
    assert Counter(p.category for p in task.heldout()) == {"level-2": 50, "level-4": 50}
    counts = Counter(prompt.category for prompt in task.training())
    assert counts == {"level-2": 45, "level-4": 45, "level-15": 810}
    assert not {p.id for p in task.heldout()} & {p.id for p in task.training()}


def test_without_shares_of_their_own_they_are_drawn_with_the_pool():
    one = build(Arithmetic(levels=(2, 4), shares=(1, 2)), 3)
    assert Counter(p.category for p in one.heldout()).keys() == {"level-2", "level-4"}


def test_levels_that_run_out_are_named():
    settings = Arithmetic(prompts=100, heldout=50, levels=(1, 2), heldout_shares=(1, 0))
    assert len(build(settings, 0).training()) == 100
    with pytest.raises(MetisError, match=r"the levels \[1\] have only 100 different problems"):
        build(Arithmetic(prompts=1, heldout=101, levels=(1, 2), heldout_shares=(1, 0)), 0)
