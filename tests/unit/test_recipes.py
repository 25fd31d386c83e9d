"""Every recipe is a setting that can be run: checked against problems made up for the tests."""

import json
import re
import tomllib
from pathlib import Path

import pytest

import bfcl_package
import made_up_problems
from metis import config
from metis.curricula.judges import Reason
from metis.data.math_sets import SETS
from metis.tasks.benchmarks.catalogue import SUITES

RECIPES = Path(__file__).parents[2] / "recipes"
FILES = sorted(RECIPES.rglob("*.toml"))
PREPARED = {"math": Path("data/paper"), "code": Path("data/code")}
COMMAND = {"math": "metis prepare math preset=paper --out data/paper", "code": "metis prepare code"}
BATCH = {"math": 256, "code": 128}
PAPER = {
    path.relative_to(RECIPES).with_suffix("").as_posix(): path
    for path in FILES
    if 'preset = "paper"' in path.read_text()
}


def write_programs(path, count):
    test = {"stdin": "", "expected": "1"}
    rows = [{"problem": f"Print {n}, or 1.", "tests": [test]} for n in range(count)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def write_sums(path, count):
    rows = [{"problem": f"What is $8 + {n}$?", "answer": str(8 + n)} for n in range(count)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Reads a recipe, with other files in the place of those it names."""
    monkeypatch.chdir(tmp_path)

    def read(path):
        raw = tomllib.loads(path.read_text())
        overrides = []
        code = raw["task"]["name"] == "code"
        if raw["task"]["name"] == "bfcl":
            overrides += [f"{key}={file}" for key, file in bfcl_package.write(tmp_path).items()]
        elif "path" in raw["task"]:
            pool = tmp_path / "pool.jsonl"
            made = write_programs(pool, 4) if code else made_up_problems.write(pool)
            overrides.append(f"task.path={made}")
        if "benchmarks" in raw:
            names = [Path(name).stem for name in raw["benchmarks"]]
            files = [
                write_programs(tmp_path / f"{name}-sample.jsonl", 2)
                if code
                else write_sums(tmp_path / f"{name}.jsonl", SETS[name].size)
                for name in names
            ]
            overrides.append(f"benchmarks={[str(file) for file in files]}")
        if raw["task"]["name"] == "math" and "verify" not in raw["task"]:
            pytest.importorskip("math_verify")
        return config.load_config(path, overrides)

    return read


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RECIPES)))
def test_every_recipe_is_a_whole_setting_and_explained(load, path):
    settings = load(path)
    assert settings.training.batch >= 1
    assert path.relative_to(RECIPES).as_posix() in (RECIPES / "README.md").read_text()


@pytest.mark.parametrize(
    ("name", "model", "hours"),
    [
        ("math/qwen3-8b-base", "Qwen/Qwen3-8B-Base", 40),
        ("math/llama-3.1-8b-instruct", "meta-llama/Llama-3.1-8B-Instruct", 40),
        ("math/qwen3-4b-base", "Qwen/Qwen3-4B-Base", 20),
        ("math/qwen3-4b-base-math", "Qwen/Qwen3-4B-Base", 20),
        ("code/qwen3-8b-base", "Qwen/Qwen3-8B-Base", 40),
        ("code/llama-3.1-8b-instruct", "meta-llama/Llama-3.1-8B-Instruct", 40),
        ("code/deepseek-r1-distill-llama-8b", "deepseek-ai/DeepSeek-R1-Distill-Llama-8B", 40),
    ],
)
def test_the_paper_s_recipes_have_the_paper_s_values(load, name, model, hours):
    found, family = load(PAPER[name]), name.partition("/")[0]
    training, engine, curriculum = found.training, found.engine, found.curriculum
    assert (training.batch, training.group, engine.minibatch) == (BATCH[family], 8, 64)
    assert (training.steps, training.seconds) == (0, hours * 3600)
    assert (engine.model, engine.max_tokens, engine.learning_rate) == (model, 8192, 2e-6)
    assert (engine.clip_low, engine.clip_high, engine.kl) == (0.2, 0.2, 0.0)
    assert not engine.std_division and engine.lora == 0 and engine.checkpointing
    assert (curriculum.multiplier, curriculum.explore, curriculum.trial) == (8, 0.0, 0)
    assert curriculum.judge == Reason(examples=3, ema=0.95, weight=0.01)
    text = PAPER[name].read_text()
    raw = tomllib.loads(text)
    assert tuple(Path(path).stem for path in raw["benchmarks"]) == SUITES[family]
    assert found.resolved["task"].get("verify", False) is False
    folders = {Path(path).parent for path in (raw["task"]["path"], *raw["benchmarks"])}
    assert folders == {PREPARED[family]}
    assert f"#   {COMMAND[family]}\n" in text
    for knob in ("temperature", "top_p", "weight_decay", "gradient_clip"):
        assert re.search(rf"^{knob} = \S+ +# not in the paper$", text, re.MULTILINE), knob


def test_function_calling_has_the_paper_s_values(load):
    found = load(PAPER["bfcl/qwen3-4b-instruct"])
    training, engine, curriculum = found.training, found.engine, found.curriculum
    assert (training.batch, training.group, engine.minibatch) == (64, 8, 64)
    assert (training.steps, training.seconds) == (0, 20 * 3600)
    assert engine.model == "Qwen/Qwen3-4B-Instruct-2507" and engine.learning_rate == 1e-6
    assert (engine.episode_tokens, engine.kl, engine.std_division) == (4096, 0.0, False)
    assert (engine.clip_low, engine.clip_high, engine.lora) == (0.2, 0.2, 0)
    assert (curriculum.multiplier, curriculum.explore, curriculum.trial) == (8, 0.0, 0)
    assert curriculum.judge == Reason(examples=3, ema=0.95, weight=0.01)
    text = PAPER["bfcl/qwen3-4b-instruct"].read_text()
    assert "#   metis prepare bfcl preset=paper --out data/paper/bfcl\n" in text
    for knob in ("temperature", "top_p", "weight_decay", "gradient_clip"):
        assert re.search(rf"^{knob} = \S+ +# not in the paper$", text, re.MULTILINE), knob


def test_all_of_the_paper_s_recipes_are_checked():
    assert len(PAPER) == 8


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RECIPES)))
def test_the_command_for_missing_data_is_the_one_that_the_recipe_names(path, tmp_path, monkeypatch):
    """Where `metis prepare` makes the file, it is made where the recipe looks for it."""
    monkeypatch.chdir(tmp_path)
    for missing in config.load_config(path, [], dry=True).missing:
        named = re.search(r"`(metis prepare [^`]+)` makes it", missing)
        header = re.match(r"(#.*\n)+", path.read_text())[0]
        if named is None:
            assert "makes none of that name" in missing and "benchmarks/hard_part.py" in header
        else:
            assert re.search(rf"^#   {re.escape(named[1])}( &&.*)?$", header, re.MULTILINE)
