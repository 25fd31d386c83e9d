"""What is written of a step: every rollout, every judgment, and the text of every candidate."""

import numpy as np
import pytest

from metis.core import (
    Batch,
    Complete,
    Completion,
    Decision,
    Group,
    Prompt,
    Rollout,
    Sampling,
    Trajectory,
    Transcript,
)
from metis.run.folder import RunFolder, read_log
from metis.run.recording import Recorder
from metis.run.transcripts import members

ONE, TWO = Prompt("one", "What is 1?", "sums", 0.5), Prompt("two", "What is 2?")


def trajectory(tokens=2):
    size = 1 + tokens
    mask = np.array([False] + [True] * tokens)
    return Trajectory(np.zeros(size, np.int64), mask, np.zeros(size, np.float32), 0)


def message(content, role="assistant"):
    return {"role": role, "content": content}


def rolled(prompt, *rewards):
    """A group whose rollouts earn these rewards; None is a failed one."""
    valid = [reward for reward in rewards if reward is not None]
    said = tuple(
        Transcript(
            [message(prompt.text, "user")],
            [message(f"answer {place}")],
            reward,
            {} if reward is None else {"format": 1.0},
            tokens=place,
            truncated=place == 1,
            failure="ValueError: no" if reward is None else None,
        )
        for place, reward in enumerate(rewards)
    )
    kept = tuple(trajectory() for _ in valid)
    return Group(prompt, tuple(valid), kept, len(rewards) - len(valid), transcripts=said)


@pytest.fixture
def folder(tmp_path):
    with RunFolder.open(tmp_path / "run", {}) as opened:
        yield opened


def recorded(folder, kind=None):
    return [(member.head, member.rows) for member in members(folder.path, kind)]


def heard(*groups, n=2):
    return (Rollout([group.prompt for group in groups], n), list(groups))


def test_every_rollout_is_kept_with_what_came_of_it(folder):
    group = rolled(ONE, 1.0, None)
    Recorder(folder).step(3, [heard(group)], Batch([group]))
    [(head, rows)] = recorded(folder)
    assert head == {
        **{"schema": 1, "step": 3, "prompt": "one", "category": "sums", "n": 2},
        "messages": [message("What is 1?", "user")],
    }
    assert rows[0] == {
        **{"rollout": 0, "messages": [message("answer 0")], "reward": 1.0, "tokens": 0},
        **{"parts": {"format": 1.0}, "truncated": False, "failure": None, "trained": True},
    }
    assert rows[1] == {
        **{"rollout": 1, "messages": [message("answer 1")], "reward": None, "tokens": 1},
        **{"parts": {}, "truncated": True, "failure": "ValueError: no", "trained": False},
    }


@pytest.mark.parametrize(
    ("expected", "kept"), [("4", "4"), ("x" * 2100, "x" * 2000 + "\n… 100 more characters")]
)
def test_what_was_expected_is_kept_with_the_prompt_as_far_as_it_is_long(folder, expected, kept):
    groups = [rolled(ONE, 1.0), rolled(TWO, 0.0)]
    known = {ONE.id: expected}
    recorder = Recorder(folder, expected=lambda prompt: known.get(prompt.id, ""))
    recorder.step(1, [heard(*groups, n=1)], Batch(groups))
    heads = [head for head, _ in recorded(folder)]
    assert [head.get("reference") for head in heads] == [kept, None]


def test_a_discarded_group_is_kept_as_one_that_was_not_trained_on(folder):
    groups = [rolled(ONE, 1.0, 1.0), rolled(TWO, 0.0, 1.0)]
    Recorder(folder).step(1, [heard(*groups)], Batch(groups[1:]))
    trained = {head["prompt"]: [row["trained"] for row in rows] for head, rows in recorded(folder)}
    assert trained == {"one": [False, False], "two": [True, True]}


def test_two_phases_of_a_prompt_are_numbered_on(folder):
    first, second = rolled(ONE, 1.0), rolled(ONE, None, 0.0)
    Recorder(folder).step(1, [heard(first, n=1), heard(second)], Batch([first + second]))
    rows = [row for _, rows in recorded(folder) for row in rows]
    assert [(row["rollout"], row["trained"]) for row in rows] == [(0, True), (1, False), (2, True)]
    assert (first + second).transcripts == first.transcripts + second.transcripts


def test_a_rollout_with_another_opening_has_its_own(folder):
    other = Transcript([message("What is one?", "user")], [message("it")], 0.0)
    group = rolled(ONE, 1.0)
    mixed = Group(
        ONE, (1.0, 0.0), (trajectory(), trajectory()), transcripts=(*group.transcripts, other)
    )
    Recorder(folder).step(1, [heard(mixed)], Batch([mixed]))
    [(_, rows)] = recorded(folder)
    assert "asked" not in rows[0] and rows[1]["asked"] == [message("What is one?", "user")]


def test_content_of_another_form_is_kept_as_json(folder):
    said = [message([{"type": "text", "text": "seen"}], "tool")]
    group = Group(ONE, (1.0,), (trajectory(),), transcripts=(Transcript(said, said, 1.0),))
    Recorder(folder).step(1, [heard(group)], Batch([group]))
    [(head, [row])] = recorded(folder)
    assert head["messages"] == row["messages"]
    assert row["messages"] == [message('[{"type": "text", "text": "seen"}]', "tool")]


def judged(*texts):
    chats = [[message("Judge.", "system"), message(f"Problem: {text}", "user")] for text in texts]
    replies = [Completion(f"about {text}", trajectory(3), "length") for text in texts]
    return Complete(chats, Sampling(8)), replies


def test_a_judgment_is_kept_with_its_candidate_and_score(folder):
    decisions = [
        Decision(ONE, True, "top", 0.25),
        Decision(TWO, False, "passed over", None, "no box"),
    ]
    batch = Batch([], decisions=decisions)
    Recorder(folder).step(1, [judged(TWO.text, ONE.text, ONE.text, "What else?")], batch)
    found = recorded(folder, "judge")
    assert [(h["prompt"], r["rollout"], r["score"], r["failure"]) for h, [r] in found] == [
        ("two", 0, None, "no box"),
        ("one", 0, 0.25, None),
        ("one", 1, 0.25, None),
        ("", 0, None, None),
    ]
    head, [row] = found[0]
    assert head["messages"][-1] == message("Problem: What is 2?", "user")
    assert row["messages"] == [message("about What is 2?")]
    assert row["tokens"] == 3 and row["truncated"] is True


def test_a_judge_that_could_not_be_asked_has_said_nothing(folder):
    chats, _ = judged(ONE.text)
    nothing = Completion("", trajectory(0), "stop")
    Recorder(folder).step(1, [(chats, [nothing])], Batch([], decisions=[Decision(ONE, False, "")]))
    [(_, [row])] = recorded(folder, "judge")
    assert row["messages"] == [] and row["tokens"] == 0


def test_every_candidate_is_described_once(folder):
    recorder, group = Recorder(folder), rolled(TWO, 1.0, 0.0)
    recorder.step(1, [], Batch([], decisions=[Decision(ONE, False, "passed over")]))
    recorder.step(2, [heard(group)], Batch([], decisions=[Decision(ONE, True, "top")]))
    Recorder(folder).step(3, [heard(group)], Batch([]))
    one, two = read_log(folder.path, "prompts")
    assert one == {
        **{"schema": 1, "step": 1, "prompt": "one", "text": "What is 1?"},
        **{"category": "sums", "difficulty": 0.5},
    }
    assert (two["step"], two["prompt"], two["difficulty"]) == (2, "two", None)


def test_a_difficulty_that_is_no_number_is_none(folder):
    odd = Prompt("odd", "?", difficulty=float("nan"))
    Recorder(folder).step(1, [], Batch([], decisions=[Decision(odd, False, "")]))
    assert read_log(folder.path, "prompts")[0]["difficulty"] is None


@pytest.mark.parametrize(("kept", "rows"), [("all", [2, 2]), ("sample", [1, 1]), ("none", [])])
def test_a_sample_keeps_one_rollout_per_group(folder, kept, rows):
    groups = [rolled(ONE, 1.0, 0.0), rolled(TWO, None, 0.0)]
    Recorder(folder, kept).step(1, [heard(*groups)], Batch(groups))
    found = recorded(folder)
    assert [len(of) for _, of in found] == rows and all(head["n"] == 2 for head, _ in found)
    assert len(read_log(folder.path, "prompts")) == 2


def test_other_answers_are_kept_without_a_word_on_training(folder):
    Recorder(folder).answers("eval", 20, [rolled(ONE, 1.0), Group(TWO, (1.0,), (trajectory(),))])
    [(head, [row])] = recorded(folder, "eval")
    assert head["step"] == 20 and head["n"] == 1 and "trained" not in row
