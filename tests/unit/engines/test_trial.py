"""A user's own reward is tried before a model is loaded."""

import json

import pytest

from metis.engines import rewards
from metis.errors import MetisError
from metis.tasks.arithmetic import Arithmetic
from metis.tasks.arithmetic import build as sums
from metis.tasks.benchmarks.validation import Validated
from metis.tasks.file import File, build


@pytest.fixture
def tried(tmp_path):
    """Tries a function, given as its text, on problems with numbers for answers."""

    def attempt(function, timeout=5.0, benchmarks=False):
        (tmp_path / "mine.py").write_text(function)
        rows = [{"problem": f"What is {n}?", "answer": n} for n in range(10)]
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        task = build(File(path=str(path), reward=f"{tmp_path}/mine.py:score"), 0)
        return rewards.trial_notices(Validated(task, [str(path)]) if benchmarks else task, timeout)

    return attempt


@pytest.mark.parametrize(
    "function",
    [
        "def score(reply):\n    return 0.5\n",
        "async def score(reply, reference):\n    return {'score': str(reference) in reply}\n",
        "def score(completions, answer):\n    return [0.0]\n",
    ],
)
def test_one_that_works_passes_in_silence(tried, function):
    assert tried(function) == []


@pytest.mark.parametrize("benchmarks", [False, True])
@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("def score(reply, reference):\n    return reference in reply\n", "line 2, in score"),
        ("async def score(reply):\n    raise KeyError('gold')\n", "KeyError: 'gold'"),
        ("def score(reply):\n    return 'good'\n", "returned 'good', not a number"),
        ("def score(completions):\n    return 1.0\n", "not a list of one number"),
    ],
)
def test_one_that_never_works_is_refused(tried, function, words, benchmarks):
    with pytest.raises(MetisError, match="8 of 8 made-up replies") as refused:
        tried(function, benchmarks=benchmarks)
    assert words in str(refused.value) and "mine.py:score" in str(refused.value)


def test_another_scale_is_refused(tried):
    with pytest.raises(MetisError, match=r"returned 10: rewards must be in \[0, 1\]"):
        tried("def score(reply):\n    return 10\n")


def test_one_that_fails_at_times_is_told_of(tried):
    [notice] = tried("def score(reply):\n    return 0.0 * ord(reply[0])\n")
    assert "failed on 4 of 8 made-up replies, first on ''" in notice and "IndexError" in notice


def test_one_that_is_late_is_told_of(tried):
    hangs = "import threading\n\ndef score(reply):\n    threading.Event().wait()\n"
    [notice] = tried(hangs, timeout=0.05)
    assert "8 of 8" in notice and "engine.reward_timeout" in notice


def test_the_tasks_of_the_package_are_not_tried(monkeypatch):
    task = sums(Arithmetic(), 0)
    monkeypatch.setattr(task, "episode", None)
    assert rewards.trial_notices(task, 1.0) == []
