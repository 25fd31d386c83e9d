"""The first validation and a survey keep the rounds that were done when they are stopped."""

import json

import pytest

pytest.importorskip("torch")

from metis.cli import main
from metis.engines.local import settings
from metis.engines.local.engine import LocalEngine
from metis.run.folder import read_log
from metis.run.transcripts import members, segments

SHORT = ["engine.device=cpu", "engine.max_tokens=4", "steps=1", "batch=2", "group=2", "seed=1"]
SHORT += ["task.prompts=30", "task.heldout=7", "task.levels=[1]", "curriculum=uniform"]


@pytest.fixture
def stopped(monkeypatch):
    """Stops the engine at its third request to play prompts; then notes all that are played."""
    played: list[str] = []
    play = LocalEngine._play

    def counted(self, prompts, *others):
        if len(calls) == 2:
            calls.append(0)
            raise KeyboardInterrupt
        calls.append(len(prompts))
        played.extend(prompt.id for prompt in prompts)
        return play(self, prompts, *others)

    calls: list[int] = []
    monkeypatch.setattr(LocalEngine, "_play", counted)
    return played


def test_a_stopped_first_validation_goes_on(tiny, tmp_path, monkeypatch, stopped, capsys):
    monkeypatch.setattr(settings, "SLOW", 3)
    words = ["train", "task=arithmetic", *SHORT, f"engine.model={tiny}"]
    run, straight = tmp_path / "run", tmp_path / "straight"
    assert main([*words, "--out", str(run)]) == 130
    assert len(stopped) == 6
    first = stopped.copy()
    stopped.clear()
    assert main([*words, "--out", str(run)]) == 0
    assert "6 of 7 answers" in capsys.readouterr().out
    assert stopped == [*stopped[:1], *stopped[1:3], *first, *stopped[:1]], (
        "the last of the first test, a step, and the last test"
    )
    assert not (run / "first_validation.jsonl").exists()
    assert main([*words, "--out", str(straight)]) == 0
    assert read_log(run, "evals") == read_log(straight, "evals")
    assert read_log(run, "metrics") == read_log(straight, "metrics")
    here, there = (
        {file.name: file.read_bytes() for file in segments(folder)} for folder in (run, straight)
    )
    assert here == there and len(list(members(run, "eval"))) == 2 * 7


def test_a_stopped_survey_goes_on(tiny, tmp_path, monkeypatch, stopped, capsys):
    monkeypatch.setattr(settings, "SLOW", 4)
    words = ["survey", "task=arithmetic", *SHORT, f"engine.model={tiny}", "--prompts", "9"]
    words += ["batch=8", "--no-step", "--out", str(tmp_path / "survey")]
    assert main(words) == 130
    assert len(read_log(tmp_path / "survey", "outcomes")) == 4
    assert "4 of 18 rollouts · about " in capsys.readouterr().out
    stopped.clear()
    assert main(words) == 0
    assert len(read_log(tmp_path / "survey", "outcomes")) == 9 and len(stopped) == 5
    said = [group.head["prompt"] for group in members(tmp_path / "survey", "survey")]
    assert said == [row["prompt"] for row in read_log(tmp_path / "survey", "outcomes")]


def test_a_survey_does_not_go_on_with_other_answers_to_the_same_prompts(tiny, tmp_path, capsys):
    data, out = tmp_path / "sums.jsonl", tmp_path / "survey"
    rows = [{"problem": f"What is {n} + 1?", "answer": n + 1} for n in range(12)]
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    words = ["survey", "task=file", f"task.path={data}", *SHORT[:5], "curriculum=uniform"]
    words += [f"engine.model={tiny}", "--prompts", "2", "--no-step", "--out", str(out)]
    assert [main(words), main(words)] == [0, 0]
    data.write_text(data.read_text().replace('"answer": 7}', '"answer": 8}'))
    capsys.readouterr()
    assert main(words) == 2
    assert "its file has changed" in capsys.readouterr().err
