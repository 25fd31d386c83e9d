"""A run folder to fill, and a cache folder for its index."""

import pytest

from shown_folders import Folder


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """A cache folder of the test's own."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("METIS_HOME", str(folder))
    return folder / "views"


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "run")
