"""Files of pass rates: what a survey and a ranking write, and what is refused."""

import gzip
import json

import pytest

from metis import MetisError
from metis.curricula.profiled import read_rates
from metis.surveys.facts import PromptOutcome
from metis.surveys.outcome_set import OutcomeSet


def write(path, *rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


def test_outcomes_of_a_survey(tmp_path):
    rows = [
        {"prompt": "a", "category": "", "rewards": [1.0, 0.0, 0.0, 0.0], "failed": 0},
        {"prompt": "b", "category": "", "rewards": [], "failed": 4},
    ]
    assert read_rates(write(tmp_path / "outcomes.jsonl", *rows)) == {"a": 0.25}


def test_an_outcome_set(tmp_path):
    outcomes = [
        PromptOutcome("a", "", (1.0, 0.5), (3, 4), 0, 0),
        PromptOutcome("b", "", (), (), 2, 0),
    ]
    path = tmp_path / "kept.jsonl.gz"
    OutcomeSet({}, {}, 9, outcomes).write(path)
    assert read_rates(str(path)) == {"a": 0.75}


def test_a_ranking_has_what_was_measured_before_what_is_expected(tmp_path):
    rows = [
        {"rank": 1, "id": "a", "expected_pass_rate": 0.4, "measured_pass_rate": 0.5},
        {"rank": 2, "id": "b", "expected_pass_rate": 0.3},
        {"rank": 3, "id": "c", "expected_pass_rate": None},
    ]
    assert read_rates(write(tmp_path / "ranking.jsonl", *rows)) == {"a": 0.5, "b": 0.3}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no pass rate"),
        (b"{}\n", "KeyError"),
        (b"[1]\n", "cannot be read"),
        (b"3\n", "cannot be read"),
        (b"not json\n", "JSONDecodeError"),
        (b'{"id": "a", "expected_pass_rate": 1.5}\n', "pass rate 1.5"),
        (b'{"prompt": "a", "rewards": ["x"]}\n', "cannot be read"),
        (b"\xff\xfe\n", "UnicodeDecodeError"),
    ],
)
def test_other_files_are_refused(tmp_path, content, words):
    path = tmp_path / "rates.jsonl"
    path.write_bytes(content)
    with pytest.raises(MetisError, match=rf"^curriculum\.rates = .*{words}"):
        read_rates(str(path))


def test_a_damaged_or_missing_file_is_refused(tmp_path):
    path = tmp_path / "rates.jsonl.gz"
    with pytest.raises(MetisError, match="FileNotFoundError"):
        read_rates(str(path))
    path.write_bytes(gzip.compress(b'["a", [1.0]]\n' * 50)[:-9])
    with pytest.raises(MetisError, match=r"curriculum\.rates"):
        read_rates(str(path))
