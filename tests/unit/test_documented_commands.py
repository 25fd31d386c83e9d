"""Every `metis` command of the docs is one that `metis` takes, with settings that exist."""

import re
import shlex

import pytest

from documented import COMMANDS, ROOT
from metis import cli, config
from metis.comparisons.plan import parse_variants
from metis.errors import MetisError

STANDS_FOR = {
    "RECIPE": "recipes/arithmetic/hopeless-90.toml",
    "recipe.toml": "recipes/math/qwen2.5-1.5b-h200.toml",
    "runs/a/config.json": "recipes/arithmetic/hopeless-90.toml",
    '"$SLURM_NNODES"': "2",
    '"$GPUS"': "8",
    "$set": "math",
}
ELSEWHERE = re.compile(r"loggers=(wandb|trackio)|task=verifiers")
"""Settings that need what is not in the environment of these tests."""

PROBLEMS = ["mine", "problems", "sums", "harder", "math_train"]


def test_pages_have_commands():
    assert {command.split()[0] for command, _ in COMMANDS} >= {
        *("train", "compare", "survey", "judge", "eval", "report", "inspect", "view", "export"),
        *("prepare", "doctor", "curricula"),
    }


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with the recipes, the examples, and what a reader is told to bring."""
    for name in ("recipes", "examples", "evidence"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in PROBLEMS:
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(f'{{"problem": "{i} + 1", "answer": "{i + 1}"}}\n' for i in range(500))
        )
    (tmp_path / "my_reward.py").write_text("def score(reply, reference):\n    return 1.0\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("command", "page"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_command_is_taken(command, page, project):
    for name, meant in STANDS_FOR.items():
        command = command.replace(name, meant)
    chosen = cli._parse(shlex.split(command))
    if command.split()[0] not in ("train", "compare", "survey"):
        return
    recipe, settings = config.parse_arguments(chosen.settings)
    assert recipe is None or recipe.exists(), recipe
    if "task=gym" in settings:  # makes its problems, which takes a while
        settings += ["task.prompts=20", "task.heldout=4"]
    variants = ()
    if command.startswith("compare "):
        variants = parse_variants(chosen.curricula, chosen.variant)
        assert variants
    for own in [variant.settings for variant in variants] or [()]:
        try:
            config.load_config(recipe, [*settings, *own], True)
        except MetisError as error:
            missing = re.search("is not installed|pip install|no such program", str(error))
            assert missing and ELSEWHERE.search(command), error
