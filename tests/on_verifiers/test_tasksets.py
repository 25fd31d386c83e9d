"""Tasksets of verifiers through its own loader: what is asked, what an answer earns, what is
refused, and training, a survey and an evaluation on a tiny model."""

import os
import subprocess
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

import metis
from metis.engines.rewards import RewardRunner, trial_notices
from metis.errors import BadReward, MetisError
from metis.run.folder import read_log
from metis.tasks.benchmarks.sets import source
from metis.tasks.verifiers import Verifiers, build
from metis.tasks.verifiers.task import RewardFailed

PYTHON = os.environ["METIS_VERIFIERS"]
PAGE = Path(__file__).parents[2] / "docs/environments.md"


def taskset(name="metis-sums", **knobs):
    return build(Verifiers(id=f"owner/{name}", python=PYTHON, workers=1, **knobs), 0)


def reward(task, reply):
    episode = task.episode(task.training()[0])
    assert episode.reply(reply) is None
    return episode.reward()


@pytest.fixture(scope="module")
def sums():
    return taskset()


@pytest.fixture(scope="module")
def odd():
    return taskset("metis-refused")


def shown(mark):
    """The block of the page that has these words."""
    blocks = [part.split("```")[0] for part in PAGE.read_text("utf-8").split("```python\n")[1:]]
    [block] = (block for block in blocks if mark in block)
    return block


def scored(task, reply):
    """The outcome of a reward, where one may take ten seconds."""
    with closing(RewardRunner(timeout=10.0)) as rewards:
        episode = task.episode(task.training()[0])
        episode.reply(reply)
        return rewards.result(rewards.submit(episode))


def test_prompts_are_those_of_the_taskset_and_none_held_out_is_trained_on(sums):
    assert (len(sums.training()), len(sums.heldout())) == (24, 6)
    prompts = [*sums.training(), *sums.heldout()]
    assert {prompt.text for prompt in prompts} == {f"What is {i} + {i % 7}?" for i in range(30)}
    assert len({prompt.id for prompt in prompts}) == 30
    again, other = (
        build(Verifiers(id="owner/metis-sums", python=PYTHON, workers=1), seed) for seed in (0, 1)
    )
    assert again.training() == sums.training() and other.training() != sums.training()


def test_the_chat_has_the_system_prompt_and_the_reference_is_the_answer(sums):
    prompt = sums.training()[0]
    episode = sums.episode(prompt)
    assert episode.chat == [
        {"role": "system", "content": "Answer with a number."},
        {"role": "user", "content": prompt.text},
    ]
    first, second = prompt.text.removeprefix("What is ").rstrip("?").split(" + ")
    assert episode.reference == str(int(first) + int(second))


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("= {}", (2 + 1) / 4),
        ("is {}", (2 + 1 + 1) / 4),
        ("is {}!", (2 - 1 + 1) / 4),
        ("no", (1 + 1) / 4),
        ("", (1 + 1) / 4),
        ("!", 0.0),
    ],
)
def test_the_weighted_sum_of_rewards_is_rescaled(sums, reply, score):
    """Weights 2 (the answer), 1 (an even number of characters) and -1 (an exclamation mark)."""
    episode = next(
        episode for episode in map(sums.episode, sums.training()) if len(episode.reference) == 1
    )
    text = reply.format(episode.reference)
    episode.reply(text)
    earned = episode.reward()
    assert earned["score"] == pytest.approx(score)
    assert earned["words"] == len(text.split())
    assert earned["loud"] == float("!" in text)


def test_the_range_of_rewards_may_be_given():
    task = taskset(reward_range=(-1.0, 9.0))
    assert reward(task, "no")["score"] == pytest.approx(0.2)
    assert reward(task, "!")["score"] == 0.0


def test_a_taskset_has_settings_and_may_be_cut_short():
    task = taskset(config={"tasks": 9}, prompts=7, heldout=2)
    assert (len(task.training()), len(task.heldout())) == (5, 2)
    assert task.settings.heldout == 2


def test_a_reward_that_needs_a_runtime_is_refused_or_gets_one():
    with pytest.raises(MetisError, match=r"setup, printed of its ProgramTask needs a runtime"):
        taskset("metis-programs")
    task = taskset("metis-programs", runtime="subprocess")
    expected = task.episode(task.training()[0]).reference
    replies = (f"print({expected})", "print('no')", "1 / 0")
    assert [reward(task, reply)["score"] for reply in replies] == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("image", "needs a container (image 'python:3.11')"),
        ("workdir", "needs a container (workdir '/app')"),
        ("contained", "Contained needs a container"),
        ("network", "limits the network"),
        ("skills", "has skills"),
        ("no prompt", "its user speaks first, in several turns"),
        ("picture", "an image; only text"),
        ("called", "a call of a tool"),
        ("tools", "tool servers (Lookup)"),
        ("intercepted", "rewrite (@vf.intercept)"),
        ("unrewarded", "Unrewarded has no reward"),
        ("empty", "it has no tasks"),
        ("endless", "task.prompts"),
        ("breaks", "OSError: the data are gone"),
    ],
)
def test_what_one_question_and_answer_cannot_play_is_refused_by_name(kind, words):
    with pytest.raises(MetisError) as caught:
        taskset("metis-refused", config={"kind": kind})
    message = str(caught.value)
    assert message.startswith("task.id = 'owner/metis-refused': ") and words in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "config", "words"),
    [
        ("metis-dialogue", {}, "its environment DialogueEnv may take several turns"),
        ("metis-refused", {"shared": True}, "tool servers (Lookup)"),
        ("metis-nothing", {}, "`prime env install owner/metis-nothing`"),
        ("json", {}, "no taskset of verifiers.v1"),
        ("metis-sums", {"task_count": 3}, "task.config.task_count = 3"),
        ("metis-sums", {"tasks": "x"}, "task.config.tasks = 'x'"),
    ],
)
def test_a_package_that_is_no_single_turn_taskset_is_refused(name, config, words):
    with pytest.raises(MetisError) as caught:
        taskset(name, config=config)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        ("raise", RewardFailed, "ValueError: this answer cannot be scored"),
        ("several", RewardFailed, "task.reward_range"),
        ("nan", BadReward, "finite"),
        ("hang", TimeoutError, "longer than engine.reward_timeout"),
        ("sleep", TimeoutError, "took too long"),
        ("die", Exception, "worker process was ended"),
    ],
)
def test_a_reward_that_fails_is_a_failure_and_the_next_is_scored(odd, reply, error, words):
    outcome = scored(odd, reply)
    assert isinstance(outcome, error) and words in str(outcome)
    assert reward(odd, "fine")["score"] == 0.5


def test_a_reward_of_another_range_ends_the_run_and_says_what_to_set(odd):
    with pytest.raises(MetisError, match=r"task\.reward_range"):
        scored(odd, "much")
    wider = taskset("metis-refused", reward_range=(0, 3))
    assert reward(wider, "much")["score"] == 1.0
    assert reward(wider, "several") == {"first": 1.0, "second": 0.5, "score": 0.5}


def test_rewards_that_fail_on_everything_are_refused_before_a_model_is_loaded():
    task = taskset("metis-refused", config={"kind": "unscorable"})
    assert source(task) == task.digest != source(taskset())
    with pytest.raises(MetisError, match=r"failed on 8 of 8 .* nothing can be scored"):
        trial_notices(task, 300.0)
    assert trial_notices(taskset(), 300.0) == []


def test_signals_work_in_rewards_as_in_verifiers(odd):
    """math-verify's time limits are signals, which raise in any thread but the main one."""
    assert reward(odd, "alarm")["score"] == 1.0


def test_an_environment_without_verifiers_is_named_with_its_remedy(tmp_path):
    with pytest.raises(MetisError, match=r"needs verifiers 0\.4 .*pip install"):
        build(Verifiers(id="owner/metis-sums"), 0)
    with pytest.raises(MetisError, match=r"task\.python = .*no such program"):
        build(Verifiers(id="owner/metis-sums", python=str(tmp_path / "python")), 0)


ALONE = """
from metis.tasks.verifiers import Verifiers, build

task = build(Verifiers(id="metis-sums", workers=1), 0)
episode = task.episode(task.training()[0])
episode.reply("!")
print(episode.reward()["score"])
"""


def test_verifiers_may_be_in_the_environment_of_metis():
    assert subprocess.check_output([PYTHON, "-c", ALONE], text=True).strip() == "0.0"


def test_the_page_trains_surveys_and_evaluates(tiny, tmp_path, monkeypatch):
    code = shown('"verifiers"')
    for there, here in (
        ("Qwen/Qwen2.5-0.5B-Instruct", str(tiny)),
        ("primeintellect/reverse-text", "owner/metis-sums"),
        ("envs/bin/python", PYTHON),
        ("steps=100", "steps=2"),
    ):
        assert there in code
        code = code.replace(there, here)
    monkeypatch.chdir(tmp_path)
    engine = {"max_tokens": 4, "reward_timeout": 300.0, "device": "cpu"}
    small = {"show": False, "batch": 4, "group": 4, "engine": engine}
    monkeypatch.setattr(metis, "train", partial(metis.train, **small, evaluate=2))
    monkeypatch.setattr(metis, "survey", partial(metis.survey, **small, prompts=8))
    monkeypatch.setattr(metis, "evaluate", partial(metis.evaluate, show=False, device="cpu"))
    names = {"metis": metis}
    exec(code, names)
    assert [row["step"] for row in read_log(names["run"].path, "metrics")] == [0, 1, 2]
    rows = read_log(names["run"].path, "rollouts")
    earned = {reward for row in rows for reward in row["rewards"]}
    assert earned <= {0.0, 0.25, 0.5, 0.75, 1.0} and len(earned) > 1
    assert {name for row in rows for each in row["reported"] for name in each} == {
        *("words", "correct", "even", "loud")
    }
    surveyed = names["survey"]
    assert len(surveyed.outcomes) == 8 and len(surveyed.rollouts) == 8 * 4
    tested = [row["reward"] for row in read_log(names["run"].path, "evals") if row["step"] == 2]
    assert names["result"].accuracy == pytest.approx(sum(tested) / len(tested))


def test_the_taskset_of_the_page_can_be_loaded(tmp_path, monkeypatch):
    (tmp_path / "page_sums.py").write_text(shown("Taskset(vf.Taskset"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    task = build(Verifiers(id="page-sums", python=PYTHON, workers=2), 0)
    assert (len(task.training()), len(task.heldout())) == (800, 200)
    episode = task.episode(task.training()[0])
    episode.reply(f"It is {episode.reference}")
    assert episode.reward() == {"score": 1.0}
