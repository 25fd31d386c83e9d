"""Rewards of one's own: every signature, what is refused at once, and every way one can fail."""

import asyncio
import inspect
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metis.errors import BadReward, MetisError
from metis.tasks.file import File, build
from metis.tasks.outcome import Scoring, read

ROWS = [
    {"id": n, "question": f"What is {n}?", "answer": n, "tests": [n], "prompt": "hidden"}
    for n in range(4)
]


@pytest.fixture
def task(tmp_path, monkeypatch):
    """A task of a file with a reward function that is written down."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))

    def make(function, **knobs):
        (tmp_path / "mine.py").write_text(function)
        settings = {"path": "rows.jsonl", "problem": "question", "heldout": 1, "instruction": "Go."}
        return build(File(**{**settings, "reward": f"{tmp_path}/mine.py:score", **knobs}), 0)

    return make


def earned(task, reply="It is 2."):
    """The reward of a reply to the problem of number 2."""
    prompts = {prompt.id: prompt for prompt in (*task.training(), *task.heldout())}
    episode = task.episode(prompts["rows:2"])
    episode.reply(reply)
    value = episode.reward()
    return read(asyncio.run(value) if inspect.isawaitable(value) else value, episode.scorer)


SCORERS = {
    "ours": "def score(reply, reference, row):\n"
    "    assert row['tests'] == [2]\n"
    "    assert reference == row['answer']\n"
    "    return float(str(reference) in reply)\n",
    "ours, reply alone": "def score(reply):\n    return '2' in reply\n",
    "ours, async": "async def score(*, reply, reference='', **more):\n"
    "    assert more['row']['tests'] == [2]\n"
    "    return {'score': float(str(reference) in reply)}\n",
    "TRL": "def score(completions, answer, **columns):\n"
    "    assert columns['tests'] == [[2]] and 'prompt' not in columns\n"
    "    assert columns['prompts'][0][0]['content'] == 'What is 2?\\nGo.'\n"
    "    return [float(str(a) in c[0]['content']) for c, a in zip(completions, answer)]\n",
    "TRL, text": "def score(prompts, completions: list[str], answer):\n"
    "    return [float(str(a) in c) for c, a in zip(completions, answer)]\n",
    "TRL, async": "async def score(completions, log_extra=None, **_):\n"
    "    return [float('2' in c[0]['content']) for c in completions]\n",
    "TRL, array": "import numpy\n\ndef score(completions, **_):\n"
    "    return numpy.array(['2' in c[0]['content'] for c in completions], dtype=float)\n",
    "verl": "def score(data_source, solution_str, ground_truth, extra_info=None):\n"
    "    assert (data_source, extra_info['tests']) == ('rows', [2])\n"
    "    return float(str(ground_truth) in solution_str)\n",
    "verl, async": "async def score(data_source, solution_str, ground_truth, extra_info, **_):\n"
    "    assert ground_truth == 2\n"
    "    return {'score': float('2' in solution_str)}\n",
    "an object": "class Score:\n    def __call__(self, reply, row):\n"
    "        return '2' in reply\n\nscore = Score()\n",
}


@pytest.mark.parametrize("kind", SCORERS)
def test_every_signature_is_called_as_its_author_expects(task, kind):
    made = task(SCORERS[kind])
    assert (earned(made).score, earned(made, "No idea.").score) == (1.0, 0.0)


def test_columns_of_verl_s_own_are_used(task, tmp_path):
    row = {"data_source": "mine", "prompt": [{"role": "user", "content": "1 + 1?"}]}
    row |= {"reward_model": {"ground_truth": {"of": [2]}}, "extra_info": {"index": 3}}
    other = {**row, "prompt": [{"role": "user", "content": "2 + 2?"}], "id": 2}
    (tmp_path / "verl.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(other)}\n")
    made = task(
        "def score(data_source, solution_str, ground_truth, extra_info):\n"
        "    assert (data_source, ground_truth) == ('mine', {'of': [2]})\n"
        "    assert extra_info == {'index': 3}\n"
        "    return 0.5\n",
        path="verl.jsonl",
        problem="prompt.0.content",
        answer="reward_model.ground_truth",
    )
    episode = made.episode(made.training()[0])
    episode.reply("2")
    assert episode.reward() == 0.5


def test_what_else_a_reward_says_is_kept(task):
    report = earned(
        task(
            "import numpy\n\ndef score(reply):\n"
            "    return {'score': numpy.float32(0.5), 'words': len(reply), 'right': True,\n"
            "            'said': reply * 100, 'odd': float('nan'), 'all': [1], 'none': None}\n"
        )
    ).report
    assert report.keys() == {"words", "right", "said"}
    assert (report["words"], report["right"], len(report["said"]) <= 200) == (8.0, 1.0, True)
    logged = "def score(completions, log_metric, **_):\n    log_metric('b', 2)\n    return [0.25]\n"
    assert earned(task(logged)) == Scoring(0.25, {"b": 2.0}, earned(task(logged)).scorer)


def test_its_rewards_are_continuous_unless_it_is_said(task):
    assert task(SCORERS["ours"]).rewards == "continuous"
    made = task(SCORERS["ours"], rewards="binary")
    assert made.rewards == made.settings.rewards == "binary"
    assert task(SCORERS["ours"], reward="").rewards == "binary"


@pytest.mark.parametrize(
    ("kind", "answer", "fine"),
    [("ours", "solution", False), ("TRL", "solution", True), ("verl", "", True)],
)
def test_an_answer_is_needed_by_a_reward_that_reads_it(task, kind, answer, fine):
    if fine:
        assert len(task(SCORERS[kind], answer=answer).training()) == 3
        return
    with pytest.raises(MetisError, match=r"no field 'solution'.*task.answer \(empty for none\)"):
        task(SCORERS[kind], answer=answer)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("def score(a, b): ...", ["(a, b)", "score(reply, reference, row)", "verl", "TRL"]),
        ("def score(**all): ...", ["(all)", "write score(reply"]),
        ("score = min", ["its parameters are not known", "write score(reply"]),
        ("score = 3", ["it is 3, not a function"]),
        ("def score(reply, judge): ...", ["'judge'", "reply, reference, row"]),
        ("def score(completions, solution, **_): ...", ["'solution'", "question, answer, tests"]),
        ("def score(completions, completion_ids): ...", ["'completion_ids'"]),
        ("def score(solution_str, ground_truth, tokenizer): ...", ["'tokenizer'", "extra_info"]),
        ("def score(reply, /): ...", ["'reply'"]),
        ("def other(reply): ...", ["has no 'score'"]),
    ],
)
def test_what_cannot_be_called_is_refused_before_anything_runs(task, function, words):
    with pytest.raises(MetisError) as caught:
        task(function)
    message = str(caught.value)
    assert message.startswith("task.reward = ") and "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("returned", "fault"),
    [
        ("None", "not a number or a mapping with 'score'"),
        ("'0.5'", "not a number or a mapping with 'score'"),
        ("[0.5]", "not a number or a mapping with 'score'"),
        ("float('nan')", "not a finite number"),
        ("{'accuracy': 1.0}", "a mapping without 'score'"),
        ("{'score': None}", "not a number or a mapping with 'score'"),
    ],
)
def test_something_else_than_a_reward_is_named(task, returned, fault):
    with pytest.raises(BadReward) as caught:
        earned(task(f"def score(reply):\n    return {returned}\n"))
    assert f"mine.py:score returned {'nan' if 'nan' in returned else ''}" in str(caught.value)
    assert str(caught.value).endswith(fault) and caught.value.fault == fault
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("returned", ["0.5", "[0.5, 0.5]", "[]", "'1'", "{'score': 1.0}", "None"])
def test_trl_s_rewards_are_a_list_of_one(task, returned):
    with pytest.raises(BadReward, match="not a list of one number"):
        earned(task(f"def score(completions, **_):\n    return {returned}\n"))


def test_trl_s_none_is_no_reward(task):
    with pytest.raises(BadReward, match="returned None, not a number"):
        earned(task("def score(completions, **_):\n    return [None]\n"))


def test_another_scale_ends_the_run_with_the_name_and_the_value():
    for score in (0.0, 1.0, 1.0000001):
        read(score, "mine.py:score").require_range()
    with pytest.raises(MetisError, match=r"mine.py:score returned -1: .* \[0, 1\]; rescale it"):
        read(-1, "mine.py:score").require_range()


@given(
    st.one_of(
        st.none(),
        st.text(),
        st.binary(),
        st.floats(),
        st.integers(),
        st.booleans(),
        st.lists(st.floats()),
        st.dictionaries(st.text(), st.floats() | st.text()),
    )
)
def test_any_value_is_a_finite_score_or_a_bad_reward(value):
    try:
        found = read(value, "mine")
    except BadReward:
        return
    assert np.isfinite(found.score)
    json.dumps(dict(found.report), allow_nan=False)
