"""The command that is named for a missing file is the one that makes it."""

from pathlib import Path

import pytest

from metis.cli import main
from metis.data.prepared import FILES, WITHOUT_PRESETS, command, remedy
from metis.prepare import bfcl, code, math


def test_the_files_are_those_that_are_prepared():
    assert set(FILES["math"]) == set(math.SETS)
    assert set(FILES["code"]) == set(code.SETS)
    assert FILES["bfcl"] == bfcl.PARTS


def test_tasks_without_presets_are_known():
    assert "paper" in math.PRESETS and "paper" in bfcl.PRESETS
    assert WITHOUT_PRESETS == ("code",)


@pytest.mark.parametrize(
    ("family", "path", "expected"),
    [
        ("math", "data/math/dapo.parquet", "metis prepare math"),
        ("math", "elsewhere/dapo.parquet", "metis prepare math --out elsewhere"),
        ("math", "data/paper/dapo.parquet", "metis prepare math preset=paper --out data/paper"),
        ("code", "data/paper/mbpp.parquet", "metis prepare code --out data/paper"),
        ("bfcl", "data/bfcl/train.parquet", "metis prepare bfcl"),
        ("bfcl", "my data/heldout.parquet", "metis prepare bfcl --out 'my data'"),
    ],
)
def test_the_command_puts_the_file_where_it_is_looked_for(family, path, expected):
    assert remedy(family, path) == f"`{expected}` makes it"


@pytest.mark.parametrize("path", ["data/math/dapo-hard.jsonl", "mine.parquet", "dapo.jsonl"])
def test_no_command_is_named_for_what_it_would_not_make(path):
    assert "makes none of that name" in remedy("math", path)


def test_a_part_of_the_sets_may_be_named():
    assert command("math", Path("a"), "aime24") == "metis prepare math aime24 --out a"


def test_a_validation_set_that_is_not_there_names_its_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["engine=local", "task=arithmetic", "benchmarks=data/paper/aime24.parquet"]
    assert main(["train", *words, "steps=1"]) == 2
    error = capsys.readouterr().err
    assert "`metis prepare math preset=paper --out data/paper` makes it" in error
