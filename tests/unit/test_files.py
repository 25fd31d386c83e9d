"""The order in which files reach the disk, seen through the calls that wait for it."""

import errno
import fcntl
import os
import shutil
from pathlib import Path

import pytest

from metis import files
from metis.run.folder import RunFolder


@pytest.fixture
def synced(monkeypatch):
    """The inodes that were waited for, and the names that they had then."""
    seen, fsync = {}, os.fsync

    def note(descriptor):
        fsync(descriptor)
        seen[os.fstat(descriptor).st_ino] = set(
            os.listdir(descriptor) if os.path.isdir(f"/proc/self/fd/{descriptor}") else ()
        )

    monkeypatch.setattr(os, "fsync", note)
    return seen


def inode(path):
    return path.stat().st_ino


def write(folder: Path) -> None:
    (folder / "weights").write_bytes(b"weights")
    (folder / "part").mkdir()
    (folder / "part/optimizer").write_bytes(b"optimizer")


def test_a_checkpoint_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch, synced):
    renamed, rename = [], Path.rename

    def note(self, target):
        if Path(target).name.startswith("step-"):
            paths = [self, *self.rglob("*")]
            renamed.append({path.name for path in paths if inode(path) in synced})
            assert synced[inode(self)] == {"weights", "part", "run.state"}
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", note)
    with RunFolder.open(tmp_path / "run", {}) as folder:
        folder.checkpoint(1, {}, write, keep=1)
    everything = {".step-000001.draft", "weights", "part", "optimizer", "run.state"}
    assert renamed == [everything]


def test_the_old_checkpoint_goes_when_the_new_name_is_on_disk(tmp_path, monkeypatch, synced):
    with RunFolder.open(tmp_path / "run", {}) as folder:
        folder.checkpoint(1, {}, write, keep=1)
        removed, rmtree = [], shutil.rmtree

        def note(path, **options):
            removed.append(Path(path).name)
            assert "step-000002" in synced[inode(tmp_path / "run/checkpoints")]
            rmtree(path, **options)

        monkeypatch.setattr(shutil, "rmtree", note)
        folder.checkpoint(2, {}, write, keep=1)
    assert removed == ["step-000001"]


def test_a_copy_is_on_disk_before_the_one_it_replaces_goes(tmp_path, synced):
    for name in ("one", "best"):
        (tmp_path / name).mkdir()
        write(tmp_path / name)
    files.link_copy(tmp_path / "one", "best")
    assert {"one", "best"} <= synced[inode(tmp_path)]
    assert all(inode(path) in synced for path in (tmp_path / "best").rglob("*"))


def test_a_file_written_whole_has_its_name_on_disk(tmp_path, synced):
    with files.atomic(tmp_path / "file") as file:
        file.write(b"whole")
    assert inode(tmp_path / "file") in synced and synced[inode(tmp_path)] == {"file"}


def test_the_names_of_the_logs_are_on_disk_with_the_first_checkpoint(tmp_path, synced):
    with RunFolder.open(tmp_path / "run", {}) as folder:
        folder.append("metrics", [{"step": 1}])
        folder.checkpoint(1, {}, write, keep=1)
    assert {"metrics.jsonl", "config.json", "checkpoints"} <= synced[inode(tmp_path / "run")]
    assert "run" in synced[inode(tmp_path)]


@pytest.mark.parametrize("number", files.NO_LOCKS)
def test_a_file_system_without_locks_is_told_of_once_and_used(
    tmp_path, monkeypatch, capsys, number
):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with RunFolder.open(tmp_path / "run", {}) as folder:
        folder.append("metrics", [{"step": 1}])
        files.lock(tmp_path / "run" / ".lock", wait=True).close()
    said = capsys.readouterr().err
    assert said.count("has no locks") == 1 and os.strerror(number) in said
    assert f"{str(tmp_path / 'run')!r}" in said


def test_other_errors_of_a_lock_are_errors(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="Input/output error"):
        files.lock(tmp_path / "lock")
