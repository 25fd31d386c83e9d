"""Rows in memory: written beside what is made of them, once, and gone again after an error."""

import json
from pathlib import Path

import pytest

from metis.errors import MetisError
from metis.library.data import digest, encoded, filed

ROWS = [{"problem": "3 + 4", "answer": 7}, {"problem": "è", "answer": "x"}]


class Number:
    """As numpy's."""

    def tolist(self):
        return 5


class Dataset:
    """As `datasets.Dataset` iterates."""

    def __iter__(self):
        return iter(ROWS)


def test_rows_are_a_file_of_the_folder(tmp_path):
    with filed(ROWS, tmp_path / "runs/a") as path:
        lines = (tmp_path / "runs/a/data.jsonl").read_text("utf-8").splitlines()
        assert path == str(tmp_path / "runs/a/data.jsonl")
        assert [json.loads(line) for line in lines] == ROWS
    with filed(Dataset(), tmp_path / "runs/a") as path:
        assert [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()] == ROWS


def test_a_path_is_left_as_it_is(tmp_path):
    with filed(tmp_path / "sums.jsonl", tmp_path / "run") as path:
        assert path == str(tmp_path / "sums.jsonl")
    assert not (tmp_path / "run").exists()


def test_after_an_error_nothing_is_left(tmp_path):
    with pytest.raises(MetisError), filed(ROWS, tmp_path / "runs/a"):
        raise MetisError("wrong settings")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(MetisError), filed(ROWS, tmp_path):
        raise MetisError("wrong settings")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_what_was_made_of_the_data_keeps_them(tmp_path):
    with pytest.raises(KeyboardInterrupt), filed(ROWS, tmp_path / "run"):
        (tmp_path / "run/config.json").write_text("{}")
        raise KeyboardInterrupt
    assert (tmp_path / "run/data.jsonl").exists()


def test_other_data_are_refused_and_overwrite_nothing(tmp_path):
    with filed(ROWS, tmp_path):
        pass
    before = (tmp_path / "data.jsonl").read_bytes()
    with pytest.raises(MetisError, match="has other data"), filed(ROWS[:1], tmp_path):
        pass
    assert (tmp_path / "data.jsonl").read_bytes() == before
    (tmp_path / "data.jsonl").unlink()
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(MetisError, match="has other data"), filed(ROWS, tmp_path):
        pass


def test_numbers_of_any_library_are_written():
    assert encoded([{"answer": Number()}]) == b'{"answer": 5}\n'


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "no rows"),
        (5, "data = 5"),
        (iter(ROWS), "data = .*give rows"),
        ({"train": ROWS}, "train; give rows, or one split"),
        (["problem"], r"row 1, is a str.*to_dict\('records'\)"),
        ([ROWS[0], {"answer": object()}], "row 2: a value of type object cannot be written"),
        ([{"answer": float("nan")}], "row 1: Out of range float"),
    ],
)
def test_what_is_no_rows_is_refused(data, said):
    with pytest.raises(MetisError, match=said):
        encoded(data)


def test_the_digest_is_of_the_rows():
    assert digest(ROWS) == digest(Dataset()) != digest(ROWS[:1])
