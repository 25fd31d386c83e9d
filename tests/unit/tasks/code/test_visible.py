"""Folders that programs see: a system and a Python, and nothing that may hold the answers."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

import metis
from metis.tasks.code import visible
from metis.tasks.sandbox import Io, Limits, run
from sandboxed import needs_bubblewrap


@pytest.fixture
def python(tmp_path, monkeypatch):
    """A Python's folder, with this package, its data and its home elsewhere."""
    for folder in ("python/lib/python3.12/site-packages/metis", "python/lib/app/src/metis"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "python/lib/python3.12/os.py").touch()
    for path in (tmp_path, *tmp_path.parents):
        if path != path.parent and path.stat().st_uid == os.geteuid():
            path.chmod(path.stat().st_mode | 0o055)
    monkeypatch.chdir(tmp_path)
    for name in ("METIS_DATA", "METIS_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return tmp_path / "python/lib"


def hidden(*folders):
    words = visible.mounts([str(folder) for folder in folders])
    masked = [words[at + 1] for at, word in enumerate(words) if word == "--tmpfs"]
    assert masked == [words[at + 1] for at, word in enumerate(words) if word == "--remount-ro"]
    return {Path(path) for path in masked}


def test_only_parts_of_a_system_are_shown(python):
    found = hidden()
    assert not any(path.name in visible.PARTS for path in found)
    assert all(any(path.is_relative_to(system) for system in visible.SYSTEMS) for path in found)
    sources = Path("/usr/src")
    assert (sources in found) == (sources.is_dir() and any(sources.iterdir()))


def test_the_packages_of_a_python_are_hidden(python):
    assert hidden(python) - hidden() == {python / "python3.12/site-packages"}


@pytest.mark.parametrize("package", ["python3.12/metis", "python3.12/deep/metis"])
def test_this_package_is_hidden_where_python_itself_has_to_stay(python, monkeypatch, package):
    (python / package).mkdir(parents=True)
    monkeypatch.setattr(metis, "__file__", str(python / package / "__init__.py"))
    outermost = python / "python3.12" / Path(package).parts[1]
    assert hidden(python) - hidden() == {outermost, python / "python3.12/site-packages"}


@pytest.mark.parametrize(
    "secret", ["METIS_DATA", "METIS_HOME", "the package", "the working folder"]
)
def test_data_and_a_checkout_are_hidden_with_all_around_them(python, monkeypatch, secret):
    inside = python / "app/src/metis"
    if secret == "the package":
        monkeypatch.setattr(metis, "__file__", str(inside / "__init__.py"))
    elif secret == "the working folder":
        monkeypatch.chdir(inside)
    else:
        monkeypatch.setenv(secret, str(inside))
    assert python / "app" in hidden(python)


def test_data_in_the_working_folder_are_hidden_where_that_holds_python(python, monkeypatch):
    (python / "data").mkdir()
    monkeypatch.chdir(python)
    monkeypatch.delenv("METIS_DATA")
    assert python / "data" in hidden(python) and python not in hidden(python)


def test_a_folder_that_holds_a_shown_one_stays(python, monkeypatch):
    programs = python / "app/bin"
    programs.mkdir()
    monkeypatch.setenv("METIS_DATA", str(python / "app/src"))
    found = hidden(python, programs)
    assert python / "app/src" in found and python / "app" not in found


def test_a_folder_that_is_new_is_hidden_from_the_next_look_on(python, monkeypatch):
    now = 0.0
    monkeypatch.setattr(visible, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setenv("METIS_DATA", str(python / "new"))
    assert python / "new" not in hidden(python)
    (python / "new").mkdir()
    now += visible.LOOK
    assert python / "new" in hidden(python)


@needs_bubblewrap
def test_a_program_finds_an_empty_folder_in_place_of_the_data(monkeypatch):
    folders = (
        path for path in Path("/usr/share").iterdir() if path.is_dir() and any(path.iterdir())
    )
    folder = next(path for path in sorted(folders) if not path.is_symlink())
    program = f"import os; print(len(os.listdir({str(folder)!r})))"
    assert run(program, [Io("", "0")], Limits()).passed == 0
    monkeypatch.setenv("METIS_DATA", str(folder))
    assert run(program, [Io("", "0")], Limits()).passed == 1
