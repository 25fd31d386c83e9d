"""Wheels as data: only the pinned content is taken, only the named parts, whole or not at all."""

import hashlib
import zipfile

import pytest

from metis.data.fetched import Wheel
from metis.errors import MetisError


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "some_data-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("some_data/rows.json", "[]")
        file.writestr("some_data/engine.py", "raise SystemExit")
    return path


@pytest.fixture
def wheel(archive, tmp_path, monkeypatch):
    monkeypatch.setenv("METIS_HOME", str(tmp_path / "home"))
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    return Wheel("some-data", "1.0", digest, 0.1, ("some_data/rows",))


def quiet(text):
    pass


def test_the_named_parts_are_unpacked_once(wheel, archive):
    folder = wheel.unpacked(archive, quiet)
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == ["rows.json"]
    archive.unlink()
    assert wheel.unpacked(None, quiet) == folder
    with pytest.raises(MetisError, match="no such file"):
        wheel.unpacked(archive, quiet)


def test_another_content_is_refused_and_nothing_is_left(wheel, archive, tmp_path):
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("more", "")
    with pytest.raises(
        MetisError, match=r"whl is not the file it should be .*: get some-data==1.0"
    ):
        wheel.unpacked(archive, quiet)
    assert not list((tmp_path / "home").rglob("rows.json"))


def test_another_content_is_refused_also_where_it_is_not_needed(wheel, archive):
    wheel.unpacked(archive, quiet)
    archive.write_bytes(b"junk")
    with pytest.raises(MetisError, match=r"whl is not the file it should be"):
        wheel.unpacked(archive, quiet)


def test_a_missing_copy_is_named(wheel, tmp_path):
    with pytest.raises(MetisError, match="no such file"):
        wheel.unpacked(tmp_path / "gone.whl", quiet)
