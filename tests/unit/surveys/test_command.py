"""`metis survey` from the command line, on the simulated engine."""

import json

import pytest

from metis.cli import main
from metis.run import folder as run_folder

WORDS = ["survey", "engine=simulated", "batch=8", "group=4", "--prompts", "40"]


@pytest.fixture
def whole(tmp_path):
    out = tmp_path / "whole"
    assert main([*WORDS, "--out", str(out)]) == 0
    return out


def test_a_survey_has_an_outcome_for_every_prompt_and_a_page(whole, capsys):
    rows = run_folder.read_log(whole, "outcomes")
    assert len({row["prompt"] for row in rows}) == len(rows) == 40
    assert all(len(row["rewards"]) + row["failed"] == 4 for row in rows)
    text = (whole / "survey.md").read_text()
    assert "40 of 2,000 prompts, 4 rollouts each. The learner is simulated" in text
    assert "A step of METIS, measured" in text
    assert main([*WORDS, "--out", str(whole)]) == 0
    assert text in capsys.readouterr().out and run_folder.read_log(whole, "outcomes") == rows


@pytest.mark.parametrize("kept", [0, 5, 8, 20, 39])
def test_a_survey_that_was_killed_goes_on_and_finds_the_same(whole, tmp_path, kept):
    out = tmp_path / "killed"
    assert main([*WORDS, "--out", str(out)]) == 0
    for name in ("step_seconds.json", "survey.md"):
        (out / name).unlink()
    lines = (out / "outcomes.jsonl").read_bytes().splitlines(keepends=True)
    torn = lines[kept][:20]  # it was killed while it wrote the next line
    (out / "outcomes.jsonl").write_bytes(b"".join(lines[:kept]) + torn)
    assert main([*WORDS, "--out", str(out)]) == 0
    assert (out / "survey.md").read_text() == (whole / "survey.md").read_text()


@pytest.mark.parametrize(
    "field", [{"rewards": None}, {"rewards": ["1"]}, {"tokens": [None]}, {"failed": "2"}]
)
def test_an_outcome_of_the_wrong_kind_is_named(whole, capsys, field):
    rows = run_folder.read_log(whole, "outcomes")
    rows[2] |= field
    (whole / "outcomes.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert main([*WORDS, "--out", str(whole)]) == 2
    assert "outcomes.jsonl, line 3, is damaged" in capsys.readouterr().err


def test_a_pool_without_anything_informative_is_told_so(tmp_path, capsys):
    words = [*WORDS, "engine.hardness=50", "--no-step", "--out", str(tmp_path / "dead")]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "None of 40 prompts is informative" in said and "measured" not in said


def test_what_cannot_be_surveyed_is_refused(tmp_path, capsys):
    for words, message in (
        (["--prompts", "1"], "use at least 2"),
        (["a.toml", "b.toml"], "more than one recipe"),
        (["engine=verl"], "use engine=local here"),
    ):
        assert main(["survey", *words, "--out", str(tmp_path / "new")]) == 2
        assert message in capsys.readouterr().err
