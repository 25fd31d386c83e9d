"""Parquet and JSON lines read alike, and a file that is not whole is named as such."""

import gzip
import json
import sys

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from metis.data import table
from metis.errors import MetisError, pip_install

ROWS = [
    {
        "prompt": [{"role": "user", "content": f"What is {number}? 求"}],
        "reward_model": {"style": "rule", "ground_truth": str(number)},
        "extra_info": {"id": f"set:{number}", "difficulty": None if number % 2 else number / 2},
    }
    for number in range(10)
]
NAMES = ["prompt.0.content", "reward_model.ground_truth", "extra_info.difficulty", "no.such"]


def written(folder, kind, rows=ROWS):
    path = folder / f"table{kind}"
    if kind == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=3)
        return path
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if kind.endswith(".gz") else text)
    return path


def refusal(read, *arguments):
    with pytest.raises(MetisError) as caught:
        list(read(*arguments))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", table.SUFFIXES)
def test_every_kind_of_file_gives_the_same_rows_fields_and_values(tmp_path, kind):
    path = written(tmp_path, kind)
    assert list(table.rows(path)) == list(table.rows(str(path))) == ROWS
    assert set(table.fields(path)) == {
        "prompt.0.role",
        "prompt.0.content",
        "reward_model.style",
        "reward_model.ground_truth",
        "extra_info.id",
        "extra_info.difficulty",
    }
    expected = [tuple(table.field(row, name) for name in NAMES) for row in ROWS]
    assert list(table.values(path, NAMES)) == expected
    assert expected[2] == ("What is 2? 求", "2", 1.0, None)


def test_a_value_that_is_not_plain_counts_as_missing(tmp_path):
    path = written(tmp_path, ".jsonl", [{"a": "text"}, {"a": ["a", "list"]}, {}])
    assert list(table.values(path, ["a"])) == [("text",), (None,), (None,)]


def test_a_table_without_rows_is_read(tmp_path):
    path = written(tmp_path, ".jsonl", [])
    assert list(table.rows(path)) == table.fields(path) == []


@pytest.mark.parametrize("kind", table.SUFFIXES)
@given(share=st.floats(0.05, 0.95))
def test_half_a_file_is_refused_in_one_line(tmp_path_factory, kind, share):
    path = written(tmp_path_factory.mktemp("half"), kind)
    whole = path.read_bytes()
    part = whole[: int(len(whole) * share)]
    path.write_bytes(part)
    if kind == ".jsonl" and part.rsplit(b"\n", 1)[-1] in (
        b"",
        whole.split(b"\n")[part.count(b"\n")],
    ):
        return  # cut between two lines: the rows that are there are whole
    message = refusal(table.rows, path)
    assert str(path) in message and "whole?" in message
    assert ("Fetch it again" in message) == (kind != ".jsonl"), "a line of one's own is mended"


def test_damage_inside_a_parquet_file_is_refused_in_one_line(tmp_path):
    path = written(tmp_path, ".parquet")
    content = bytearray(path.read_bytes())
    content[4:200] = b"\xff" * 196
    path.write_bytes(bytes(content))
    assert "cannot be read" in refusal(table.rows, path)
    assert "cannot be read" in refusal(table.values, path, NAMES)


def test_what_is_not_a_table_is_refused_in_one_line(tmp_path):
    assert "no such file" in refusal(table.rows, tmp_path / "none.jsonl")
    other = tmp_path / "table.csv"
    other.write_text("a,b\n")
    assert "use .parquet, .jsonl, .jsonl.gz" in refusal(table.rows, other)
    path = tmp_path / "table.jsonl"
    for text, word in (("[1]\n", "line 1"), ("{}\n{]\n", "line 2"), ("[" * 10**5, "line 1")):
        path.write_text(text)
        assert word in refusal(table.rows, path)
    path.with_suffix(".parquet").write_bytes(b"")
    assert "cannot be read" in refusal(table.rows, path.with_suffix(".parquet"))


def test_without_pyarrow_it_says_what_to_install(tmp_path, monkeypatch):
    path = written(tmp_path, ".parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert pip_install("math") in refusal(table.rows, path)


@pytest.mark.parametrize("kind", [".jsonl", ".jsonl.gz"])
def test_blank_lines_are_no_rows(tmp_path, kind):
    path = tmp_path / f"table{kind}"
    text = b'{"a": 1}\n\n  \n{"a": 2}\n\n'
    path.write_bytes(gzip.compress(text) if kind.endswith(".gz") else text)
    assert list(table.rows(path)) == [{"a": 1}, {"a": 2}]
