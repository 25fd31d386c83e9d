"""Settings of task=verifiers, and what is said where its library is missing or too old."""

import json

import pytest

from metis.cli import main
from metis.errors import MetisError
from metis.settings.sections import TaskSection
from metis.tasks.verifiers import Verifiers, build

SHORT = ["task=verifiers", "task.id=owner/name"]


def test_settings_are_written_as_they_are_read():
    given = {"config": {"split": "train"}, "reward_range": [-1, 1], "runtime": "subprocess"}
    section = TaskSection.read({"name": "verifiers", "id": "owner/name", **given})
    section.require_known()
    written = section.document(None, section.resolve(0), 0)
    read = json.loads(json.dumps(written))
    assert {name: read[name] for name in given} == given
    assert TaskSection.read(read).resolve(0) == section.resolve(0)


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"id": ""}, "task.id = ''"),
        ({"prompts": 1}, "task.prompts = 1"),
        ({"heldout": 0}, "task.heldout = 0"),
        ({"workers": 0}, "task.workers = 0"),
        ({"reward_range": (1.0, 1.0)}, "task.reward_range"),
        ({"reward_range": (0.0, float("inf"))}, "task.reward_range"),
    ],
)
def test_a_bad_setting_is_refused(knobs, words):
    with pytest.raises(MetisError) as caught:
        Verifiers(**{"id": "owner/name", **knobs})
    assert words in str(caught.value)


def test_an_older_verifiers_is_named_with_its_remedy(tmp_path, monkeypatch, capsys):
    (tmp_path / "verifiers").mkdir()
    (tmp_path / "verifiers/__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert main(["train", *SHORT, "task.workers=1", "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "needs verifiers 0.4 (No module named 'verifiers.v1')" in said
    assert "pip install -e" in said and "task.python" in said


def test_a_python_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(MetisError, match=r"task\.python = .*no such program"):
        build(Verifiers(id="owner/name", python=str(tmp_path / "python")), 0)
