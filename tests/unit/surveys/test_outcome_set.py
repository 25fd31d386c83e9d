"""Outcome sets: the file, the join with data, and those of the repository."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skips
from metis import MetisError, Prompt
from metis.cli import main
from metis.data import problems
from metis.prepare.math import identity_of
from metis.run.folder import read_log
from metis.settings.sections import task_of
from metis.surveys.facts import PromptOutcome, SurveyFacts
from metis.surveys.outcome_set import OutcomeSet

KEPT = sorted((Path(__file__).parents[3] / "evidence/judge-offline").glob("*.jsonl.gz"))
COPIES = {"math": "math_train.jsonl.gz", "dapo": "dapo_math_17k.jsonl.gz"}
SOME = [
    PromptOutcome("dapo:1", "", (1.0, 0.0, 0.5), (12, 7, 300), 1, 1),
    PromptOutcome("dapo:2", "", (), (), 4, 0),
]

rewards = st.lists(st.sampled_from([0.0, 1.0, 0.125, 1 / 3]), max_size=4)
outcomes = st.lists(
    st.builds(
        lambda name, values, failed: PromptOutcome(
            f"data:{name}", "", tuple(values), tuple(range(len(values))), failed, 0
        ),
        st.integers(0, 99),
        rewards,
        st.integers(0, 3),
    ),
    max_size=6,
)


@given(outcomes)
@settings(derandomize=True, deadline=None)
def test_what_is_written_is_read_and_the_bytes_are_always_the_same(tmp_path_factory, found):
    folder = tmp_path_factory.mktemp("sets")
    one, other = folder / "one.jsonl.gz", folder / "new" / "other.jsonl.gz"
    made = OutcomeSet({"seed": 0, "task": {"path": "/home/me/x.parquet"}}, {"metis": "1"}, 9, found)
    made.write(one)
    made.write(other)
    assert one.read_bytes() == other.read_bytes()
    again = OutcomeSet.read(one)
    assert list(again.outcomes) == found and again.pool == 9
    assert again.settings["task"]["path"] == "…/x.parquet"


def test_outcomes_are_joined_with_the_data_by_id():
    data = [Prompt("dapo:2", "two", "hard"), Prompt("dapo:3", "three"), Prompt("dapo:1", "one")]
    joined = OutcomeSet({}, {}, 3, SOME).joined(data)
    assert [(p.text, o.category) for p, o in joined] == [("one", ""), ("two", "hard")]
    with pytest.raises(MetisError, match=r"1 of 2 prompts .* \(dapo:1\): it is of other data"):
        OutcomeSet({}, {}, 3, SOME).joined(data[:2])


@pytest.mark.parametrize(
    "content",
    [b"", b"not gzip", gzip.compress(b""), gzip.compress(b"[]\n"), gzip.compress(b'{"format":1}')],
    ids=["empty", "not gzip", "nothing inside", "a list", "another format"],
)
def test_another_file_is_refused(tmp_path, content):
    path = tmp_path / "set.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(MetisError, match=r"cannot be read: .*`metis survey --keep` writes one"):
        OutcomeSet.read(path)


def test_a_survey_keeps_its_outcomes(tmp_path, capsys):
    words = ["survey", "engine=simulated", "batch=8", "group=4", "--prompts", "24", "--no-step"]
    kept = tmp_path / "kept.jsonl.gz"
    assert main([*words, "--out", str(tmp_path / "s"), "--keep", str(kept)]) == 0
    found = OutcomeSet.read(kept)
    rows = read_log(tmp_path / "s", "outcomes")
    assert [o.prompt for o in found.outcomes] == [row["prompt"] for row in rows]
    assert [list(o.rewards) for o in found.outcomes] == [row["rewards"] for row in rows]
    assert (found.pool, found.settings["prompts"], found.settings["group"]) == (2000, 24, 4)
    assert main([*words, "--keep", "kept.json"]) == 2
    assert "--keep = 'kept.json': name a file that ends in .jsonl.gz" in capsys.readouterr().err


def ids_of(found):
    """The ids of the data that a set is of, where they are there."""
    task = found.settings["task"]
    if task["name"] == "arithmetic":
        return {prompt.id for prompt in task_of(found.settings).training()}
    name = Path(task["path"]).stem
    copy = Path(os.environ.get("METIS_DATA") or ".") / COPIES[name]
    if not copy.exists():
        pytest.skip(f"{skips.DATA} ({COPIES[name]})")
    pytest.importorskip("pyarrow", reason="pip install -e '.[math]'")
    collection = problems.read([copy], "text")
    return {identity_of(name, problem.text) for problem in collection.problems}


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_sets_of_the_repository_are_of_their_data(path):
    found = OutcomeSet.read(path)
    names = [outcome.prompt for outcome in found.outcomes]
    assert len(set(names)) == len(names) == found.settings["prompts"] <= found.pool
    for outcome in found.outcomes:
        assert len(outcome.rewards) + outcome.failed == found.settings["group"]
        assert len(outcome.tokens) == len(outcome.rewards)
        assert outcome.cut_off <= len(outcome.rewards)
        longest = found.settings["engine"]["max_tokens"]
        assert all(0 < count <= longest for count in outcome.tokens)
    assert set(names) <= ids_of(found)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_sets_of_the_repository_are_small_and_have_no_texts(path):
    assert path.stat().st_size < 200_000
    lines = gzip.decompress(path.read_bytes()).splitlines()[1:]
    assert all(isinstance(cell, str | list | int) for line in lines for cell in json.loads(line))
    assert np.isfinite(SurveyFacts(OutcomeSet.read(path).outcomes).variances).all()
