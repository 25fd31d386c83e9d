"""Classes and functions by their names: from modules, from files, and back to a name."""

import sys

import pytest

from metis import MetisError
from metis.core.importing import import_object, import_string_of


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def test_a_file_is_run_once_and_may_import_its_neighbours(place):
    folder = place / "deeper"
    folder.mkdir()
    (folder / "neighbour_of_mine.py").write_text("value = 7\n")
    (folder / "mine.py").write_text(
        "from neighbour_of_mine import value\nclass Outer:\n    class Inner:\n        it = value\n"
    )
    inner = import_object("task", "deeper/mine.py:Outer.Inner")
    assert inner.it == 7
    assert import_object("task", f"{folder}/mine.py:Outer.Inner") is inner
    assert import_string_of("task", inner) == f"{folder}/mine.py:Outer.Inner"


def test_a_file_that_has_changed_is_run_again(place):
    (place / "mine.py").write_text("value = 7\n")
    assert import_object("task", "mine.py:value") == 7
    (place / "mine.py").write_text("value = 70\n")
    assert import_object("task", "mine.py:value") == 70


def test_a_file_does_not_hide_a_module_of_its_name(place):
    (place / "json.py").write_text("def dumps(value): return 'mine'\n")
    assert import_object("task.reward", "json.py:dumps")(1) == "mine"
    assert import_object("task.reward", "json:dumps")(1) == "1"


def test_names_lead_back(place):
    assert import_object("task", import_string_of("task", MetisError)) is MetisError
    with pytest.raises(MetisError, match=r"task.reward = <function .*: .* top level of a module"):
        import_string_of("task.reward", lambda reply: 0.0)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_thing:score", ["there is no module 'no_such_thing'", "PYTHONPATH"]),
        ("no/such.py:score", ["there is no file 'no/such.py'"]),
        ("torn.py:score", ["importing 'torn.py' raised SyntaxError", "torn.py, line 2"]),
        ("broken.py:score", ["raised ZeroDivisionError: division by zero", "broken.py, line 2"]),
        ("needy.py:score", ["raised ModuleNotFoundError", "a_library_that_is_not_there"]),
        ("leaving.py:score", ["raised SystemExit: 3", "leaving.py, line 2"]),
        ("leaving:score", ["raised SystemExit: 3", "leaving.py, line 2"]),
        ("empty.py:score", ["'empty.py' has no 'score'"]),
        ("empty.py:", ["write package.module:Name or path/to/file.py:Name"]),
    ],
)
def test_what_cannot_be_imported_is_one_line(place, name, words):
    (place / "torn.py").write_text("x = 1\ndef score(:\n")
    (place / "broken.py").write_text("x = 1\n1 / 0\n")
    (place / "needy.py").write_text("import a_library_that_is_not_there\n")
    (place / "leaving.py").write_text("import sys\nsys.exit(3)\n")
    (place / "empty.py").write_text("")
    with pytest.raises(MetisError) as caught:
        import_object("task.reward", name)
    message = str(caught.value)
    assert "\n" not in message and message.startswith(f"task.reward = {name!r}: ")
    for word in words:
        assert word in message
    assert str(place / name.partition(":")[0]) not in sys.modules or name.startswith("empty")
