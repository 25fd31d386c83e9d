"""`make quickstart` installs what it needs and no more; the tests and linters need the rest."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
for name in sys.argv[1:]:
    sys.modules[name] = None
from metis import config, loop, report, view
from metis.engines import model_files
from metis.engines.local import engine
assert config.load_config(None, []).engine_name == "local"
"""


@pytest.mark.parametrize(
    ("target", "extras"),
    [
        ("quickstart", [".[local]"]),
        ("test", [".[local]", ".[local,math,gym,dev]"]),
        ("test-notebooks", [".[local]", ".[local,math,gym,dev]"]),
        ("check", [".[local]", ".[local,math,gym,dev]"]),
        ("test-trl", ["tests/on_trl/requirements.txt", "."]),
        ("test-trainers", ["tests/on_trainers/requirements.txt", "."]),
    ],
)
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_a_target_installs_what_it_needs_after_the_pinned_torch(target, extras):
    torch, *others = installed(target)
    assert torch.startswith("torch==") and others == extras


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_tasksets_are_installed_apart_and_need_no_torch():
    others = [".[local]", ".[local,math,gym,dev]"]
    apart = ["tests/on_verifiers/requirements.txt", ".", "tests/on_verifiers/tasksets"]
    assert [place for place in installed("test-verifiers") if place not in others][1:] == apart


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("end", ["oldest", "newest"])
def test_the_ends_of_the_ranges_bring_their_own_torch(end):
    assert installed(f"test-{end}") == [f"tests/{end}.txt", "."]


def test_the_oldest_versions_are_those_that_the_package_allows():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["local"]]
    oldest = dict(
        line.split("==")
        for line in (ROOT / "tests/oldest.txt").read_text("utf-8").splitlines()
        if "==" in line
    )
    for each in map(Requirement, needed):
        [least] = [bound.version for bound in each.specifier if bound.operator == ">="]
        if each.name != "packaging":  # pip brings it, and pytest needs a newer one
            assert Version(oldest[each.name]) == Version(least), each.name


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_viewer_needs_no_torch():
    assert installed("test-inspect") == ["tests/on_inspect/requirements.txt", "."]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_site_needs_nothing_of_the_rest():
    assert installed("site") == ["docs/requirements.txt"]


def installed(target):
    command = ["make", "--always-make", "--dry-run", target]
    printed = subprocess.check_output(command, cwd=ROOT, text=True)
    return [line.split()[-1].strip("'") for line in printed.splitlines() if "install" in line]


def test_the_quickstart_needs_no_other_extra():
    for package in ("torch", "transformers"):
        pytest.importorskip(package)
    others = ["math_verify", "pyarrow", "reasoning_gym", "hypothesis", "pytest"]
    subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM, *others], check=True)


def programs(folder, user, available):
    """A PATH on which apt-get installs what is available, and writes down what it was asked."""
    for name in ("sh", "cat", "chmod"):
        (folder / name).symlink_to(shutil.which(name))
    made = {
        "id": f"echo {user}",
        "apt-get": f"""echo "$*" >> {folder}/asked
            for last; do :; done
            case " {available} " in *" $last "*)
                echo > {folder}/$last; chmod +x {folder}/$last; exit 0 ;;
            esac
            [ $1 = update ]""",
    }
    for name, text in made.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("user", "available", "asked", "told"),
    [
        (0, "one two", ["update", "one", "two"], []),
        (0, "two", ["update", "one", "two"], ["one"]),
        (0, "", ["update", "one", "two"], ["one", "two"]),
        (1000, "one two", [], ["one", "two"]),
    ],
)
def test_root_gets_packages_and_others_are_told(tmp_path, user, available, asked, told):
    programs(tmp_path, user, available)
    command = [tmp_path / "sh", ROOT / ".ci/packages", "one", "sh", "two"]
    run = subprocess.run(
        command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    asked_for = tmp_path / "asked"
    lines = asked_for.read_text().splitlines() if asked_for.exists() else []
    assert [next(word for word in line.split()[::-1] if word[0] != "-") for line in lines] == asked
    assert [line.split()[-1] for line in run.stdout.splitlines()] == told


@pytest.mark.parametrize(
    ("target", "packages"),
    [
        ("quickstart", {"python3-venv"}),
        ("test", {"python3-venv", "python3-dev", "g++", "bubblewrap", "chromium"}),
        ("test-notebooks", {"python3-venv", "python3-dev", "g++"}),
        ("test-verl", {"python3-venv", "bubblewrap"}),
        ("test-trl", {"python3-venv"}),
        ("test-trainers", {"python3-venv"}),
        ("test-inspect", {"python3-venv", "chromium"}),
        ("test-verifiers", {"python3-venv", "python3-dev", "g++"}),
        ("site", {"python3-venv"}),
    ],
)
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_a_target_sees_to_its_packages_before_what_needs_them(target, packages):
    command = ["make", "--always-make", "--dry-run", target]
    printed = subprocess.check_output(command, cwd=ROOT, text=True).splitlines()
    seen = {}
    for place, line in enumerate(printed):
        if line.startswith("sh .ci/packages"):
            seen |= {name: place for name in line.split()[2:] if name not in seen}
    assert seen.keys() == packages
    assert seen["python3-venv"] < next(i for i, line in enumerate(printed) if "-m venv" in line)
    if "python3-dev" in seen:
        [gym] = (i for i, line in enumerate(printed) if "gym" in line)
        assert seen["python3-dev"] < gym
