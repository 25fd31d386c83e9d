"""Every `metis` command of the docs is one that `metis` takes, with settings that exist."""

import re
import shlex
from pathlib import Path

import pytest

from metis import cli, config
from metis.comparisons.plan import parse_variants
from metis.errors import MetisError

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for pattern in ("*.md", "docs/**/*.md", "recipes/**/*.md", "evidence/*.md")
    for page in sorted(ROOT.glob(pattern))
]
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


def commands():
    """Pages and the lines of their code blocks that call `metis`, without comments."""
    for page in PAGES:
        text = page.read_text("utf-8")
        for block in re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.S | re.M):
            for line in re.sub(r"\\\n\s*", " ", block).splitlines():
                if called := re.match(r"\s*(?:[A-Z_]+=\S+ )*metis (.+)", line):
                    yield page.relative_to(ROOT).as_posix(), called[1].partition(" #")[0].strip()


COMMANDS = sorted({command: page for page, command in commands()}.items())


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
