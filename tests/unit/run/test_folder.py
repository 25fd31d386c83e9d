"""Reading the logs of a run folder: every line is a row of its log, or is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metis import MetisError
from metis.run.folder import LOGS, read_log

ROW = '{"step": 1, "prompt": "a", "reward": 1.0, "text": "said"}\n'


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("line", ["3", "null", "[]", "{}", '{"step": "1"}', '{"step": 1', "\xff"])
def test_a_line_that_is_no_row_is_named(tmp_path, log, line):
    (tmp_path / f"{log}.jsonl").write_text(f"{ROW}{line}\n", "latin-1")
    with pytest.raises(MetisError, match=rf"{log}\.jsonl, line 2, is damaged: restore the file"):
        read_log(tmp_path, log)


@pytest.mark.parametrize("length", range(len(ROW)))
def test_a_last_line_that_is_being_written_is_left_out(tmp_path, length):
    (tmp_path / "evals.jsonl").write_text(ROW + ROW[:length])
    rows = read_log(tmp_path, "evals")
    assert len(rows) == (2 if length == len(ROW) - 1 else 1)


def test_a_test_s_row_has_a_prompt_and_a_reward(tmp_path):
    (tmp_path / "evals.jsonl").write_text('{"step": 1, "prompt": "a"}\n')
    with pytest.raises(MetisError, match=r"evals\.jsonl, line 1, is damaged"):
        read_log(tmp_path, "evals")


@given(content=st.binary(max_size=40))
def test_any_bytes_are_rows_or_refused(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("run")
    (folder / "evals.jsonl").write_bytes(content)
    try:
        assert all(isinstance(row["step"], int) for row in read_log(folder, "evals"))
    except MetisError as error:
        assert "\n" not in str(error)


def test_a_log_that_is_not_there_is_empty_or_named(tmp_path):
    assert read_log(tmp_path, "evals", optional=True) == []
    with pytest.raises(MetisError, match=r"has no evals.jsonl: name a run folder"):
        read_log(tmp_path, "evals")


def test_of_a_long_log_only_lines_with_a_text_are_read(tmp_path):
    (tmp_path / "evals.jsonl").write_text(ROW + ROW.replace('"a"', '"b"'))
    assert [row["prompt"] for row in read_log(tmp_path, "evals", having=b'"b"')] == ["b"]
