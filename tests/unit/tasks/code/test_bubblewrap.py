"""The command line of the sandbox: who it runs as, which Python, what it shows of the system."""

import os
import sys
from pathlib import Path

import pytest

from metis.tasks.code import bubblewrap, visible
from metis.tasks.code.bubblewrap import SandboxMissing


@pytest.fixture(autouse=True)
def no_choice_is_kept():
    bubblewrap.interpreter.cache_clear()
    yield
    bubblewrap.interpreter.cache_clear()


@pytest.fixture
def words(monkeypatch):
    monkeypatch.setattr(bubblewrap, "executable", lambda: "bwrap")
    return bubblewrap.command(4096, [Path("/opt/packages")], {"/inside/x.py": 7}, 8)


def following(words, option):
    return [words[at + 1] for at, word in enumerate(words) if word == option]


def test_nothing_of_the_host_is_writable(words):
    assert "--bind" not in words and "--dev" not in words
    assert words[words.index("--") - 2 :] == ["--remount-ro", "/", "--"]
    mounted, sizes = following(words, "--tmpfs"), following(words, "--size")
    assert mounted[-1] == "/tmp" and sizes[-1] == "4096" and len(sizes) == len(mounted)
    assert set(mounted[:-1]) <= set(following(words, "--remount-ro"))


def test_installed_packages_are_hidden_and_libraries_shown(words):
    mounts = visible.mounts(bubblewrap.interpreter().folders)
    assert following(words, "--tmpfs")[:-1] == following(mounts, "--tmpfs")
    at = words.index("/opt/packages")
    assert words[at - 1 : at + 2] == ["--ro-bind", "/opt/packages", "/libraries/0"]


def test_privileges_are_dropped(words):
    for option in ("--unshare-all", "--disable-userns", "--new-session", "--die-with-parent"):
        assert option in words
    assert following(words, "--cap-drop") == ["ALL"] and following(words, "--seccomp") == ["8"]


def test_each_sandbox_of_root_s_has_a_user_of_its_own(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(bubblewrap, "_all_are_mapped", lambda kind: True)
    users = {bubblewrap.identity() for _ in range(20)}
    assert len(users) == 20 and all(user in bubblewrap.NOBODIES for user in users)
    monkeypatch.setattr(bubblewrap, "_all_are_mapped", lambda kind: kind == "uid")
    assert bubblewrap.identity() == bubblewrap.NOBODY
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert bubblewrap.identity() is None


@pytest.mark.parametrize(
    ("rows", "mapped"),
    [("0 0 4294967295\n", True), ("0 100000 65536\n", False), ("0 0 1\n1 1 4294967294\n", True)],
)
def test_a_container_may_lack_users(monkeypatch, rows, mapped):
    monkeypatch.setattr(Path, "read_text", lambda path: rows)
    bubblewrap._all_are_mapped.cache_clear()
    try:
        assert bubblewrap._all_are_mapped("uid") is mapped
    finally:
        bubblewrap._all_are_mapped.cache_clear()


def test_a_python_that_the_user_cannot_open_gives_way_to_the_system_s(monkeypatch):
    system = os.path.realpath("/usr/bin/python3")
    monkeypatch.setattr(bubblewrap, "reachable", lambda path: str(path) == system)
    assert bubblewrap.interpreter() == bubblewrap.Interpreter(system, ())


def test_one_s_own_python_comes_with_its_folders(monkeypatch):
    monkeypatch.setattr(bubblewrap, "reachable", lambda path: True)
    monkeypatch.setattr(sys, "base_prefix", "/opt/python")
    monkeypatch.setattr(
        os.path, "isdir", lambda path: path in ("/opt/python/bin", "/opt/python/lib")
    )
    assert bubblewrap.interpreter().folders == ("/opt/python/bin", "/opt/python/lib")


def test_without_any_python_the_variable_is_named(monkeypatch):
    monkeypatch.setattr(bubblewrap, "reachable", lambda path: False)
    with pytest.raises(SandboxMissing, match="set METIS_SANDBOX_PYTHON"):
        bubblewrap.interpreter()


def test_a_python_that_is_none_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("METIS_SANDBOX_PYTHON", str(tmp_path / "absent"))
    with pytest.raises(SandboxMissing, match=r"METIS_SANDBOX_PYTHON = .*absent"):
        bubblewrap.interpreter()
    monkeypatch.setenv("METIS_SANDBOX_PYTHON", "/bin/false")
    with pytest.raises(SandboxMissing, match="METIS_SANDBOX_PYTHON = '/bin/false'"):
        bubblewrap.interpreter()


def test_a_private_folder_cannot_be_reached(tmp_path):
    folder = tmp_path / "private" / "inner"
    folder.mkdir(parents=True)
    folder.parent.chmod(0o700 if os.geteuid() == 0 else 0)
    assert not bubblewrap.reachable(folder)
    folder.parent.chmod(0o700)
    assert bubblewrap.reachable(Path("/usr/bin"))


def test_another_machine_is_refused_by_its_name(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(SandboxMissing, match=r"'riscv64'.*x86_64, aarch64"):
        bubblewrap.filter_program()


@pytest.mark.parametrize(
    ("tool", "command"),
    [
        ("apt-get", "apt-get install -y g++"),
        ("dnf", "dnf install -y g++"),
        ("", "install g++ with"),
    ],
)
def test_packages_are_installed_as_the_system_does(monkeypatch, tool, command):
    monkeypatch.setattr("shutil.which", lambda name: name if name == tool else None)
    assert command in bubblewrap.install_command("g++")
