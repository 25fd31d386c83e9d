"""The reasoning-gym task: its problems, its scores from 0 to 1, and what it refuses."""

import sys

import pytest

from metis.errors import MetisError, pip_install
from metis.tasks.gym import Gym, build

pytest.importorskip("reasoning_gym")

DATASETS = ["chain_sum", "countdown", "gcd", "word_sorting", "base_conversion", "leg_counting"]


def small(dataset="chain_sum", **knobs):
    return Gym(**{"dataset": dataset, "prompts": 12, "heldout": 6, **knobs})


def reward(task, prompt, reply):
    episode = task.episode(prompt)
    assert episode.reply(reply) is None
    return episode.reward()


def answered(task, prompt):
    return f"So it is <answer>{task.items[prompt.id]['answer']}</answer>."


def test_the_sizes_are_as_asked_and_nothing_held_out_is_trained_on():
    task = build(small(prompts=100, heldout=50), 0)
    assert len(task.training()) == 100 and len(task.heldout()) == 50
    problems = (*task.training(), *task.heldout())
    assert len({prompt.id for prompt in problems}) == 150
    assert len({prompt.text for prompt in problems}) == 150


def test_the_same_seed_makes_the_same_problems_and_another_makes_others():
    first, again, other = (build(small(), seed) for seed in (0, 0, 1))
    assert first.training() == again.training() and first.heldout() == again.heldout()
    texts = [{prompt.text for prompt in task.training()} for task in (first, other)]
    assert texts[0] != texts[1]


def test_repeated_problems_are_left_out():
    config = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
    task = build(small(config=config, prompts=40, heldout=20), 0)
    texts = [prompt.text for prompt in (*task.training(), *task.heldout())]
    assert len(set(texts)) == 60


def test_difficulty_is_the_category():
    config = {"min_terms": 2, "max_terms": 3, "min_digits": 1, "max_digits": 2}
    categories = {prompt.category for prompt in build(small(config=config), 0).training()}
    assert categories == {"num_terms=(2, 3),num_digits=(1, 2)"}


def test_the_question_and_its_instruction():
    task = build(small(), 0)
    prompt = task.training()[0]
    [message] = task.episode(prompt).chat
    assert message["role"] == "user"
    assert message["content"].startswith(prompt.text)
    assert message["content"].endswith("Give your answer between <answer> and </answer>.")
    [plain] = build(small(instruction=""), 0).episode(prompt).chat
    assert plain["content"] == prompt.text


@pytest.mark.parametrize("rewards", ["binary", "continuous"])
@pytest.mark.parametrize("dataset", DATASETS)
def test_wrong_and_empty_answers_earn_nothing_and_the_right_one_everything(dataset, rewards):
    task = build(small(dataset, rewards=rewards), 0)
    assert task.rewards == rewards
    for prompt in (*task.training()[:5], *task.heldout()[:5]):
        for wrong in ("", "<answer></answer>", "no idea", "<answer>no idea</answer>"):
            assert reward(task, prompt, wrong) == 0.0
        assert reward(task, prompt, answered(task, prompt)) == 1.0


@pytest.mark.parametrize("dataset", ["advanced_geometry", "propositional_logic"])
def test_crumbs_for_anything_that_is_said_are_taken_back_too(dataset):
    task = build(small(dataset, rewards="continuous"), 0)
    for prompt in task.training():
        assert reward(task, prompt, "<answer>no idea</answer>") == 0.0


def test_countdown_gives_crumbs_that_are_taken_back():
    task = build(small("countdown", rewards="continuous"), 0)
    prompt = task.training()[0]
    assert task.source.score_answer("no idea", task.items[prompt.id]) > 0
    assert reward(task, prompt, "<answer>no idea</answer>") == 0.0


class Graded:
    """Scores a reply by what it says: the floor of an empty answer is 0.2."""

    def score_answer(self, answer, item):
        return {None: 0.2, "": 0.2, "half": 0.6, "full": 1.0, "worse": 0.1, "more": 1.5}[answer]


@pytest.mark.parametrize(
    ("answer", "binary", "continuous"),
    [
        ("", 0.0, 0.0),
        ("worse", 0.0, 0.0),
        ("half", 0.0, 0.5),
        ("full", 1.0, 1.0),
        ("more", 1.0, 1.0),
    ],
)
def test_partial_credit_counts_only_where_it_is_asked_for(answer, binary, continuous):
    for rewards, expected in (("binary", binary), ("continuous", continuous)):
        task = build(small(rewards=rewards), 0)
        task.source = Graded()
        earned = reward(task, task.training()[0], f"<answer>{answer}</answer>")
        assert earned == pytest.approx(expected)


@pytest.mark.parametrize(
    "frame",
    [
        "<answer>{}</answer>",
        "Hm, <answer>1234567</answer>, no: <answer> {} </answer> it is.",
        "<answer>{}",
        "{}</answer>",
        "{}",
    ],
)
def test_the_last_answer_counts_with_or_without_its_marks(frame):
    task = build(small(), 0)
    for prompt in task.training():
        assert reward(task, prompt, frame.format(task.items[prompt.id]["answer"])) == 1.0


def refusal(settings):
    with pytest.raises(MetisError) as caught:
        build(settings, 0)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_an_unknown_data_set_is_one_line():
    assert "task.dataset = 'chain_summ'" in refusal(small("chain_summ"))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"min_terms": 9, "max_terms": 2}, "max_terms must be >= min_terms"),
        ({"bogus": 1}, "'bogus'"),
        ({"min_terms": "many"}, "'min_terms': 'many'"),
        ({"size": 3}, "size"),
    ],
)
def test_a_bad_config_is_one_line(config, words):
    message = refusal(small(config=config))
    assert "task.dataset = 'chain_sum'" in message and "task.config" in message
    assert words in message


def test_more_problems_than_there_are_is_one_line():
    config = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
    message = refusal(small(config=config, prompts=300, heldout=100))
    assert "task.prompts + task.heldout = 400" in message
    assert "196 different problems" in message


@pytest.mark.parametrize("knob", ["prompts", "heldout"])
def test_an_empty_set_is_refused(knob):
    with pytest.raises(MetisError, match=f"task.{knob} = 0"):
        small(**{knob: 0})


def test_a_missing_package_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    assert pip_install("gym") in refusal(small())
