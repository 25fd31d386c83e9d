"""The `metis` commands of the docs run as they are written, where they take seconds on a CPU.

A tiny model stands for a real one, and its run of 13 steps for the runs that a page speaks of.
"""

import json
import re
import shlex
import shutil

import pytest

from documented import COMMANDS, ROOT
from metis.cli import main

HUB = "needs a model of the hub, then minutes or a GPU"
NOT_RUN = {
    r"compare |survey ": "trains or rolls out for minutes: tests/unit/comparisons, surveys",
    r"prepare ": "needs the network: tests/unit/prepare",
    r"view (?!.*--bundle)": "serves until Ctrl-C: tests/browser/test_view.py",
    r"train runs/a/config.json": "goes on for minutes: tests/e2e/test_resume.py",
    r"train .*(loggers=|task=verifiers)": "needs what is in other environments",
    r"train .*engine=verl": "needs verl and its data, in another environment: make test-verl",
    r"train (recipes/|RECIPE|recipe.toml)(?!.*--dry-run)": HUB,
    r"train curriculum=mopps --out": HUB,
    r"train .*(MODEL|engine.model=|task=code|task=math|task.path=data/|task=gym)": HUB,
    r"eval (?!runs/mine$|runs/mine --checkpoint last$)": HUB + ", or published benchmarks",
    r"judge ": HUB,
    r"report OUT": "stands for a folder of long runs; the same with names is run",
    r"export .*--(checkpoint 200|adapter)": "needs a run of 200 steps, or one with LoRA",
}
"""Why a command is not run, by how it begins."""

RUN = [command for command, _ in COMMANDS if not any(re.match(each, command) for each in NOT_RUN)]
WITH_MODEL = {"train task=file task.path=sums.jsonl", "train task=examples/own_task.py"}
SMALL = "engine.max_tokens=4 batch=2 group=2 steps=1 evaluate=1"


@pytest.fixture(scope="module")
def made(tiny, tmp_path_factory):
    """The run, under every name that a page gives it, and a survey."""
    base = tmp_path_factory.mktemp("made")
    settings = "engine.max_tokens=4 batch=2 group=2 steps=13 evaluate=12 checkpoints.every=12"
    recipe = f"{ROOT}/recipes/arithmetic/hopeless-90.toml"
    task = f"engine.model={tiny} task.prompts=60 task.heldout=4"
    assert main(shlex.split(f"train {recipe} --out {base}/runs/a {task} {settings}")) == 0
    for name in ("b", "mine", "quickstart", "mopps"):
        shutil.copytree(base / "runs/a", base / "runs" / name)
    small = "engine=simulated engine.prompts=40 batch=4 group=4 --prompts 20"
    assert main(shlex.split(f"survey {small} --out {base}/surveys/a")) == 0
    return base


@pytest.fixture
def project(made, tmp_path, monkeypatch):
    """A folder with all of it, the recipes and the examples."""
    for name in ("runs", "surveys"):
        shutil.copytree(made / name, tmp_path / name)
    for name in ("recipes", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    rows = [json.dumps({"problem": f"{i} + 1", "answer": str(i + 1)}) for i in range(60)]
    (tmp_path / "sums.jsonl").write_text("\n".join(rows))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("METIS_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.parametrize("command", RUN, ids=str)
def test_a_command_runs(command, project, tiny, capsys):
    lines = (project / "runs/a/rollouts.jsonl").read_text("utf-8").splitlines()
    prompt = next(row["prompt"] for row in map(json.loads, lines) if row["step"] == 12)
    words = shlex.split(re.sub(r"\bID\b", lambda _: prompt, command))
    if any(command.startswith(each) for each in WITH_MODEL):
        words += [f"engine.model={tiny}", *SMALL.split()]
    # `metis doctor` ends with 1 where a part of this machine does not work
    assert main(words) in ((0, 1) if words == ["doctor"] else (0,)), capsys.readouterr().err
    assert capsys.readouterr().out


def test_every_reason_not_to_run_a_command_is_one_of_a_command():
    for reason in NOT_RUN:
        assert any(re.match(reason, command) for command, _ in COMMANDS), reason
    assert len(RUN) >= 20
