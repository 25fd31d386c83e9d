"""Configuration: recipes, overrides, and refusals that name key, value and remedy."""

import pytest

from metis import MetisError
from metis.config import load_config, resolve


def test_the_defaults_are_complete_and_resolved():
    config = resolve({})
    assert config.resolved["curriculum"]["preset"] == "recommended"
    assert config.resolved["curriculum"]["judge"]["name"] == "direct"
    assert config.resolved["engine"]["name"] == "local"
    assert config.resolved["task"]["name"] == "arithmetic"
    assert resolve(strip(config.resolved)).resolved == config.resolved


@pytest.mark.parametrize(
    ("words", "quick"),
    [
        ([], True),
        (["engine=local", "task=arithmetic", "curriculum=uniform", "engine.device=cpu"], True),
        (["engine=simulated"], False),
        (["task=gym", "task.dataset=chain_sum"], False),
        (["task.name=gym", "task.dataset=chain_sum"], False),
    ],
)
def test_the_quickstart_holds_without_a_recipe_unless_an_engine_or_a_task_is_named(words, quick):
    if "task.dataset=chain_sum" in words:
        pytest.importorskip("reasoning_gym")
    training, plain = load_config(None, words).training, resolve({}).training
    assert ((training.steps, training.batch) != (plain.steps, plain.batch)) is quick


def strip(resolved):
    return {key: value for key, value in resolved.items() if key != "schema"}


def test_a_recipe_and_overrides_merge(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        "steps = 5\n[curriculum]\nname = 'metis'\nexplore = 0.5\n[curriculum.judge]\nshare = 0.3\n"
    )
    config = load_config(recipe, ["seed=3", "curriculum.judge.scale=passes", "batch=4", "group=2"])
    assert (config.training.steps, config.training.seed) == (5, 3)
    assert config.curriculum.explore == 0.5
    assert (config.curriculum.judge.scale, config.curriculum.judge.share) == ("passes", 0.3)
    assert (config.curriculum.batch, config.curriculum.group) == (4, 2)


def test_naming_another_curriculum_drops_the_knobs_of_the_one_before(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[curriculum]\nname = 'metis'\nexplore = 0.5\n")
    assert load_config(recipe, ["curriculum=uniform"]).curriculum_name == "uniform"
    assert load_config(recipe, ["curriculum=metis"]).curriculum.explore == 0.5


def test_another_curriculum_keeps_the_recipe_s_preset_or_says_that_it_has_none(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[curriculum]\nname = 'metis'\npreset = 'paper'\nexplore = 0.5\n")

    def loaded(*overrides):
        config = load_config(recipe, overrides)
        return config.resolved["curriculum"].get("preset"), config.notices

    assert load_config(recipe, ["curriculum=pcl"]).curriculum.explore == 0.0
    for name in ("uniform", "sec", "adcl", "pcl"):
        assert loaded(f"curriculum={name}") == ("paper", ())
    assert loaded("curriculum=pcl", "curriculum.preset=published") == ("published", ())
    preset, [notice] = loaded("curriculum=dapo")
    assert (
        preset is None and "dapo has no preset 'paper', the recipe's; using its defaults" in notice
    )
    recipe.write_text("[curriculum]\nname = 'metis'\npreset = 'recommended'\n")
    preset, [notice] = loaded("curriculum=pcl")
    assert preset == "published" and "using its preset 'published'" in notice


def test_the_order_of_name_and_knob_does_not_matter():
    for order in (
        ["curriculum=oracle", "curriculum.multiplier=2"],
        ["curriculum.multiplier=2", "curriculum=oracle"],
    ):
        config = load_config(None, order)
        assert (config.curriculum_name, config.curriculum.multiplier) == ("oracle", 2)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["stepz=3"], ["'stepz'", "did you mean 'steps'?"]),
        (["explore=0.2"], ["'explore'", "did you mean 'curriculum.explore'?"]),
        (
            ["curriculum.judge=direct", "curriculum.judge.shar=0.1"],
            ["did you mean 'curriculum.judge.share'?"],
        ),
        (["curriculum.batch=3"], ["'curriculum.batch'", "did you mean 'batch'?"]),
        (["curriculum=uniform", "curriculum.explore=0.1"], ["unknown key 'curriculum.explore'"]),
        (
            ["curriculum.judge=direct", "curriculum.share=0.5"],
            ["'curriculum.share'", "curriculum.judge.share"],
        ),
        (["steps=many"], ["steps = 'many'", "integer"]),
        (["steps=1.5"], ["steps = 1.5", "integer"]),
        (["steps=true"], ["steps = True", "integer"]),
        (["batch=x"], ["batch = 'x'", "integer"]),
        (["curriculum.explore=lots"], ["curriculum.explore = 'lots'", "number"]),
        (
            ["curriculum.judge=direct", "curriculum.judge.scale=guess"],
            ["curriculum.judge.scale = 'guess'", "'passes'"],
        ),
        (["curriculum=metiss"], ["curriculum = 'metiss'", "did you mean 'metis'?"]),
        (["engine=cloud"], ["engine = 'cloud'", "simulated"]),
        (["xyzzy=1e-6"], ["unknown key 'xyzzy'", "metis train --dry-run"]),
        (["curriculum.foo=1"], ["curriculum has name, preset", "explore", "judge.name"]),
        (["curriculum=uniform", "curriculum.foo=1"], ["curriculum has name, preset"]),
        (["curriculum.explor=1"], ["did you mean 'curriculum.explore'?"]),
        (["task=file", "task.path=a", "task.heldout_path=b"], ["benchmarks=", "task.heldout on"]),
        (["engine.learning_rate=5"], ["engine.learning_rate = 5", "at most 0.1"]),
        (["lr=1e-6"], ["unknown key 'lr'", "that is 'engine.learning_rate' here"]),
        (["engine.num_generations=4"], ["that is 'group' here"]),
        (["engine=verl", "engine.max_prompt_length=9"], ["that is 'engine.max_prompt' here"]),
        (["curriculum=GRPO"], ["curriculum = 'GRPO': curriculum=uniform is GRPO"]),
        (["curriculum=gspo"], ["engine.ratio=sequence"]),
        (["engine=vllm"], ["engine.generation=vllm"]),
        (["loggers=3"], ["loggers = 3", "such as 'loggers=[3]'"]),
        (["task.levels=7"], ["task.levels = 7", "such as 'task.levels=[7]'"]),
        (["engine=simulated", "task=gym"], ["task = ", "simulated engine has its own"]),
        (["task.level=2"], ["'task.level'", "did you mean 'task.levels'?"]),
        (["task.levels=[16]"], ["task.levels = [16]"]),
        (["task.prompts=99999999"], ["task.prompts + task.heldout", "only"]),
        (
            ["curriculum.preset=papre"],
            ["curriculum.preset = 'papre'", "recommended, readout, paper"],
        ),
        (["curriculum=oracle", "curriculum.preset=paper"], ["curriculum.preset = 'paper'"]),
        (["curriculum.multiplier=0"], ["curriculum.multiplier = 0", "at least 1"]),
        (
            ["curriculum.judge=direct", "curriculum.judge.examples=-1"],
            ["curriculum.judge.examples = -1", "at least 0"],
        ),
        (["curriculum.judge=reason", "curriculum.judge.ema=nan"], ["curriculum.judge.ema = nan"]),
        (["steps=0"], ["steps = 0", "set a limit: tokens, processed or seconds"]),
        (["steps=-1"], ["steps = -1", "at least 0"]),
        (["answers=3"], ["unknown key 'answers'", "it is transcripts"]),
        (["transcripts_gb=-1"], ["transcripts_gb = -1", "0 or more"]),
        (["transcripts=some"], ["transcripts", "'all', 'sample' or 'none'"]),
        (
            ["engine=simulated", "benchmarks=['math']"],
            ["benchmarks = ['math']", "has its own validation"],
        ),
        (["steps"], ["'steps' is not a setting", "key=value"]),
        (["engine=simulated", "steps.x=1", "steps.y=2"], ["unknown key 'steps.x'"]),
        (["seed=1", "seed.x=2"], ["'seed' is 1, not a section"]),
    ],
)
def test_wrong_settings_are_refused_in_one_line(overrides, words):
    with pytest.raises(MetisError) as caught:
        load_config(None, overrides)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_a_missing_or_broken_recipe_is_named(tmp_path):
    with pytest.raises(MetisError, match=r"nothing\.toml.*No such file"):
        load_config(tmp_path / "nothing.toml", [])
    broken = tmp_path / "broken.toml"
    broken.write_text("steps = = 3")
    with pytest.raises(MetisError, match=r"broken\.toml.*cannot be read.*line 1"):
        load_config(broken, [])


def test_another_preset_holds_whole_whatever_the_recipe_says():
    config = load_config(None, ["curriculum.judge.examples=5", "curriculum.preset=paper"])
    curriculum = config.resolved["curriculum"]
    assert (curriculum["explore"], curriculum["trial"]) == (0.0, 0)
    assert (curriculum["judge"]["name"], curriculum["judge"]["examples"]) == ("reason", 5)
    own = load_config(None, []).resolved["curriculum"]["judge"]
    same = load_config(None, ["curriculum.preset=recommended"]).resolved["curriculum"]["judge"]
    assert (own["name"], same["name"]) == ("readout", "direct"), "the quickstart's is its own"


def test_keys_of_a_mapping_are_its_own():
    found = load_config(None, ["task=gym", "task.config={min_terms=2}", "task.config.max_terms=3"])
    assert found.resolved["task"]["config"] == {"min_terms": 2, "max_terms": 3}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], None),
        (["engine=simulated"], None),
        (["seed=1"], "quickstart settings (8 steps, answers of 16 tokens): "),
        (["task=arithmetic", "steps=9"], "quickstart settings (answers of 16 tokens): "),
        (["steps=9", "engine.max_tokens=64"], "quickstart settings: name another task or a recipe"),
    ],
)
def test_settings_of_the_quickstart_beside_given_ones_are_told_of(words, told):
    notices = load_config(None, words).notices
    assert notices[0].startswith(told) if told else notices == ()


def test_a_judge_with_state_that_would_not_be_saved_is_refused(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass, field\n"
        "from metis.curricula.judges import Judge, Predictions\n"
        "@dataclass\nclass Forgetful(Judge[Predictions]):\n"
        "    seen: int = field(init=False, default=0)\n"
    )
    with pytest.raises(MetisError, match=r"curriculum\.judge = .*Forgetful"):
        resolve({"curriculum": {"name": "metis", "judge": f"{file}:Forgetful"}})
