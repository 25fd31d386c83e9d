"""The origin of each setting."""

import json

import pytest

from metis.config import load_config
from metis.core.dotted import leaves


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        "engine = 'simulated'\nsteps = 5\n[checkpoints]\nevery = 2\n"
        "[curriculum]\nname = 'metis'\npreset = 'paper'\nexplore = 0.5\n"
    )
    return path


def test_every_setting_has_an_origin(recipe):
    config = load_config(recipe, ["batch=4", "curriculum.judge.ema=0.9", "checkpoints.keep=3"])
    known = config.origins
    assert known.keys() == {key for key, _ in leaves(config.resolved)}
    assert (
        known["steps"] == known["engine.name"] == known["checkpoints.every"] == "recipe mine.toml"
    )
    assert known["batch"] == known["curriculum.judge.ema"] == "command line"
    assert known["curriculum.explore"] == "recipe mine.toml", "above the preset"
    assert known["curriculum.judge.name"] == known["curriculum.trial"] == "preset paper"
    assert known["checkpoints.keep"] == "command line"
    assert known["seed"] == known["engine.prompts"] == "default"
    whole = load_config(recipe, ["checkpoints={keep=3}"]).origins
    assert (whole["checkpoints.keep"], whole["checkpoints.every"]) == ("command line", "default")


@pytest.mark.parametrize("words", [["curriculum.judge=direct"], ["curriculum.judge.name=direct"]])
def test_another_judge_is_the_command_line_s_and_its_settings_are_defaults(recipe, words):
    with recipe.open("a") as file:
        file.write("[curriculum.judge]\nema = 0.9\n")
    known = load_config(recipe, []).origins
    assert known["curriculum.judge.name"] == "preset paper"
    assert known["curriculum.judge.ema"] == "recipe mine.toml"
    assert known["curriculum.judge.weight"] == "default"
    known = load_config(recipe, [*words, "curriculum.judge.share=0.5"]).origins
    assert known["curriculum.judge.name"] == known["curriculum.judge.share"] == "command line"
    assert known["curriculum.judge.scale"] == "default"
    assert "curriculum.judge.ema" not in known


def test_what_a_word_of_the_command_line_drops_is_no_longer_the_recipe_s(recipe):
    known = load_config(recipe, ["curriculum=pcl"]).origins
    assert known["curriculum.name"] == "command line"
    assert known["curriculum.preset"] == "recipe mine.toml"
    assert known["curriculum.explore"] in ("default", "preset paper")


def test_without_a_recipe_there_is_the_quickstart_or_nothing():
    known = load_config(None, ["steps=3"]).origins
    assert (known["steps"], known["batch"]) == ("command line", "quickstart")
    known = load_config(None, ["engine=simulated"]).origins
    assert (known["engine.name"], known["batch"]) == ("command line", "default")


def test_what_the_data_completes_is_the_data_s(tmp_path):
    asked = "Answer with a box."
    row = {
        "data_source": "metis/own",
        "reward_model": {"ground_truth": "2"},
    }
    path = tmp_path / "own.jsonl"
    with path.open("w") as file:
        for i in range(6):
            text = f"What is {i} + 1?"
            chat = [{"role": "user", "content": f"{text}\n{asked}"}]
            about = {"problem": text, "id": f"own:{i}"}
            file.write(json.dumps({**row, "prompt": chat, "extra_info": about}) + "\n")
    words = ["task=math", f"task.path={path}", "task.heldout=2", "batch=2"]
    config = load_config(None, words)
    assert config.resolved["task"]["instruction"] == asked
    assert config.origins["task.instruction"] == "data"
    assert config.origins["task.verify"] == "default"
    given = load_config(None, [*words, f"task.instruction={asked}"]).origins
    assert given["task.instruction"] == "command line"
