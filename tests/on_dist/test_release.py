"""The wheel and the sdist, as they are installed and used outside this tree."""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"


def interpreter(version):
    """The command of a version of Python; None where this machine has none that starts."""
    names = [f"python{version}", *PYENV.glob(f"{version}.*/bin/python")]
    for name in filter(shutil.which, names):
        if subprocess.run([name, "-c", ""], capture_output=True).returncode == 0:
            return name
    return None


SUPPORTED = {version: interpreter(version) for version in ("3.11", "3.12", "3.13")}
FOUND = [version for version, found in SUPPORTED.items() if found]


def build(source, folder, *kinds):
    command = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", folder, source]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def only(folder, pattern):
    [found] = folder.glob(pattern)
    return found


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return build(ROOT, tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def environment(release, tmp_path_factory):
    """Of a version of Python: the folder of an environment with the wheel and what it requires."""

    @functools.cache
    def made(version):
        place = tmp_path_factory.mktemp("installed")
        subprocess.run([SUPPORTED[version], "-m", "venv", place], check=True)
        pip = [place / "bin" / "pip", "install", "--quiet", only(release, "*.whl")]
        subprocess.run(pip, check=True)
        return place

    return made


@pytest.fixture(params=FOUND)
def installed(request, environment):
    """The environment of each version of Python that this machine has."""
    return environment(request.param)


@pytest.fixture
def newest(environment):
    """The environment of the newest version."""
    return environment(FOUND[-1])


@pytest.fixture
def metis(installed, tmp_path):
    """A call of the installed command in an empty folder."""

    def call(*words, code=0):
        command = [installed / "bin" / "metis", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    return call


def test_the_wheel_has_every_file_of_the_package(release):
    package = ROOT / "src" / "metis"
    files = (path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc")
    expected = {path.relative_to(package.parent).as_posix() for path in files}
    names = contents(only(release, "*.whl")).keys()
    assert {name for name in names if ".dist-info/" not in name} == expected


def test_the_sdist_is_small_and_builds_the_same_wheel(release, tmp_path):
    source = only(release, "*.tar.gz")
    assert source.stat().st_size < 2**21
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    again = build(only(tmp_path, "metis_rft-*"), tmp_path / "again", "--wheel")
    assert contents(only(again, "*.whl")) == contents(only(release, "*.whl"))


def test_the_base_installs_without_torch(installed):
    packages = subprocess.check_output([installed / "bin" / "pip", "list", "--format=json"])
    names = {package["name"] for package in json.loads(packages)}
    assert "metis-rft" in names and not names & {"torch", "transformers", "pyarrow"}


def test_a_simulated_run_is_trained_and_looked_at(metis, tmp_path):
    metis("train", "engine=simulated", "steps=4", "--out", "run")
    metis("report", "run")
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    metis("inspect", "run", "--step", "2")
    metis("survey", "engine=simulated", "--prompts", "20", "--out", "survey")
    assert "metis" in metis("curricula")
    assert json.loads(metis("doctor", "--json"))


def test_what_needs_an_extra_names_it(metis):
    assert re.search(r"pip install .*\[local\]", metis("train", "--out", "run", code=2))


def test_a_selector_chooses(installed, tmp_path):
    program = (
        "import metis; selector = metis.Selector(['a', 'b', 'c'], 'mopps', batch=2, group=2);"
        "[selector.observe(pick.id, [0, 1]) for pick in selector.propose()];"
        "print(selector.metrics)"
    )
    subprocess.run([installed / "bin" / "python", "-c", program], cwd=tmp_path, check=True)


def test_a_type_checker_sees_the_package_s_types(newest, tmp_path):
    right = shutil.copy(HERE / "typed.py", tmp_path)
    wrong = shutil.copy(HERE / "mistyped.py", tmp_path)
    assert errors(newest, right) == []
    calls = [
        number
        for number, line in enumerate(Path(wrong).read_text().splitlines())
        if line.startswith("metis.")
    ]
    assert sorted({error["range"]["start"]["line"] for error in errors(newest, wrong)}) == calls


def errors(newest, file):
    (Path(file).parent / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    checker = Path(sys.executable).with_name("basedpyright")
    command = [checker, "--pythonpath", newest / "bin" / "python", "--outputjson", file]
    done = subprocess.run(command, cwd=Path(file).parent, capture_output=True, text=True)
    said = json.loads(done.stdout)
    assert said["summary"]["filesAnalyzed"] == 1
    return [line for line in said["generalDiagnostics"] if line["severity"] == "error"]


def test_the_parts_of_an_installation_are_listed(newest, tmp_path):
    listed = tmp_path / "sbom.json"
    program = Path(sys.executable).with_name("cyclonedx-py")
    command = [program, "environment", newest / "bin" / "python", "--output-file", listed]
    subprocess.run([*command, "--output-format", "JSON"], check=True, capture_output=True)
    parts = {part["name"]: part for part in json.loads(listed.read_text())["components"]}
    assert {"metis-rft", "numpy", "packaging", "pydantic", "rich"} <= parts.keys()
    assert parts["metis-rft"]["licenses"][0]["license"]["id"] == "MIT"
