"""The run scripts for verl: they compose, and say what the recipes of the same name say."""

import json
import os
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from verl.utils.config import validate_config

import bfcl_package
import made_up_problems
from composing import composed
from metis.config import load_config
from metis.engines.verl.launch.checks import check_config
from metis.engines.verl.launch.from_recipe import overrides
from metis.engines.verl.reward import loaded_task
from metis.settings.sections import curriculum_of

RECIPES = Path(__file__).parents[2] / "recipes"
SCRIPTS = {
    "run_qwen3_8b_base_math.sh": "math/qwen3-8b-base.toml",
    "run_qwen3_4b_base_math.sh": "math/qwen3-4b-base.toml",
    "run_llama3.1_8b_instruct_math.sh": "math/llama-3.1-8b-instruct.toml",
    "run_qwen3_4b_base_case_study.sh": "math/qwen3-4b-base-math.toml",
    "run_qwen3_4b_instruct_bfcl.sh": "bfcl/qwen3-4b-instruct.toml",
    "run_qwen3_8b_base_code.sh": "code/qwen3-8b-base.toml",
    "run_llama3.1_8b_instruct_code.sh": "code/llama-3.1-8b-instruct.toml",
    "run_deepseek_r1_distill_llama_8b_code.sh": "code/deepseek-r1-distill-llama-8b.toml",
}
SAME = [
    "algorithm.norm_adv_by_std_in_grpo",
    "data.train_batch_size",
    "data.max_prompt_length",
    "data.max_response_length",
    "actor_rollout_ref.model.path",
    "actor_rollout_ref.model.enable_gradient_checkpointing",
    "actor_rollout_ref.actor.optim.lr",
    "actor_rollout_ref.actor.optim.weight_decay",
    "actor_rollout_ref.actor.optim.clip_grad",
    "actor_rollout_ref.actor.ppo_mini_batch_size",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu",
    "actor_rollout_ref.actor.clip_ratio_low",
    "actor_rollout_ref.actor.clip_ratio_high",
    "actor_rollout_ref.actor.use_kl_loss",
    "actor_rollout_ref.actor.entropy_coeff",
    "actor_rollout_ref.actor.loss_agg_mode",
    "actor_rollout_ref.actor.checkpoint.save_contents",
    "actor_rollout_ref.rollout.n",
    "actor_rollout_ref.rollout.temperature",
    "actor_rollout_ref.rollout.top_p",
    "actor_rollout_ref.rollout.logprobs_mode",
    "actor_rollout_ref.rollout.max_model_len",
    "actor_rollout_ref.rollout.agent.default_agent_loop",
    "trainer.total_training_steps",
    "trainer.test_freq",
    "trainer.save_freq",
    "trainer.logger",
    "trainer.max_actor_ckpt_to_keep",
    "trainer.max_critic_ckpt_to_keep",
    "reward.num_workers",
    "trainer.nnodes",
    "trainer.n_gpus_per_node",
    "trainer.v1.metis.rewards",
    "trainer.v1.metis.seconds",
    "trainer.v1.metis.best",
    "trainer.v1.metis.rewards",
]


def script(name, tmp_path, flash=False, **environment):
    """The arguments that a script hands to verl, where flash-attn is installed or not."""
    fake = tmp_path / "python3"
    answer = f'if [ "$1" = -c ]; then exit {0 if flash else 1}; fi'
    fake.write_text(f'#!/bin/sh\n{answer}\nprintf "%s\\n" "$@"\n')
    fake.chmod(0o755)
    found = subprocess.run(
        [str(RECIPES / "verl" / name)],
        env={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.splitlines()


def native(name, tmp_path, **environment):
    words = script(name, tmp_path, **environment)
    folder, config = words[3], words[5]
    with initialize_config_dir(folder, version_base=None):
        return compose(config, words[6:])


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_says_what_its_recipe_says(name, tmp_path, monkeypatch):
    verl = native(name, tmp_path, NNODES="12")
    check_config(verl)
    validate_config(verl, use_reference_policy=False, use_critic=False)
    monkeypatch.chdir(tmp_path)
    words = ["engine=verl", "engine.nodes=12", "engine.gpus=8", "engine.max_prompt=2048"]
    recipe = load_config(RECIPES / SCRIPTS[name], [*words, *data(SCRIPTS[name], tmp_path)])
    other = composed(overrides(recipe, tmp_path, recipe.engine.model))
    for key in SAME:
        assert OmegaConf.select(verl, key) == OmegaConf.select(other, key), key
    section = OmegaConf.to_container(verl.trainer.v1.metis.curriculum)
    assert curriculum_of(section, verl.data.train_batch_size, 8) == recipe.curriculum


def data(recipe, folder):
    """Other files in the place of those that a recipe names."""
    if recipe.startswith("bfcl"):
        return [f"{key}={path}" for key, path in bfcl_package.write(folder).items()]
    write = programs if recipe.startswith("code") else made_up_problems.write
    pool, tests = (write(folder / f"{name}.jsonl") for name in ("pool", "test"))
    return [f"task.path={pool}", f"benchmarks={[str(tests)]}"]


def test_the_script_of_function_calling_plays_its_recipe_s_task(tmp_path):
    bfcl_package.require()
    verl = native("run_qwen3_4b_instruct_bfcl.sh", tmp_path, DATA="mine")
    named = OmegaConf.to_container(verl.reward.custom_reward_function.reward_kwargs, resolve=True)
    recipe = tomllib.loads((RECIPES / "bfcl/qwen3-4b-instruct.toml").read_text())["task"]
    paths = {"path": "train", "heldout_path": "heldout"}
    here = {key: f"{Path.cwd()}/mine/{name}.parquet" for key, name in paths.items()}
    assert named["task"] == {**recipe, **here}
    files = {key.removeprefix("task."): path for key, path in bfcl_package.write(tmp_path).items()}
    task = loaded_task(task={**named["task"], **files})
    prompt = task.task.training()[0]
    assert task.episode({"id": prompt.id}).output == recipe["output"]


def programs(path):
    """Programming problems of one's own."""
    test = {"stdin": "", "expected": "1"}
    rows = [{"problem": f"Print {n}, or 1.", "tests": [test]} for n in range(4)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_scripts_of_code_score_programs_with_the_cores_divided(tmp_path):
    name, libraries = "run_qwen3_8b_base_code.sh", {"METIS_SANDBOX_LIBRARIES": "/packages"}
    verl = native(name, tmp_path, BENCHMARKS="humaneval mbpp", **libraries)
    assert verl.data.train_files == f"{Path.cwd()}/data/code/codecontests.parquet"
    assert [Path(file).stem for file in verl.data.val_files] == ["humaneval", "mbpp"]
    function = verl.reward.custom_reward_function
    assert (function.name, function.reward_kwargs.share) == ("score_code", verl.reward.num_workers)
    there = native(name, tmp_path, NNODES="12").reward
    shared = there.custom_reward_function.reward_kwargs
    assert (there.num_workers, shared.share, shared.nodes) == (96, 96, 12)
    assert verl.ray_kwargs.ray_init.runtime_env.env_vars.items() >= libraries.items()


def test_scripts_take_other_curricula_and_a_single_node(tmp_path):
    name = "run_qwen3_8b_base_math.sh"
    verl = native(name, tmp_path, CURRICULUM="dapo", PRESET="", OUT="elsewhere", DATA="mine")
    assert verl.trainer.nnodes == 1
    assert verl.trainer.default_local_dir == f"{Path.cwd()}/elsewhere/verl"
    assert verl.data.train_files == f"{Path.cwd()}/mine/dapo.parquet"
    section = OmegaConf.to_container(verl.trainer.v1.metis.curriculum)
    assert type(curriculum_of(section, 256, 8)).__name__ == "Dapo"


def test_odd_names_reach_verl_as_they_are(tmp_path):
    odd = "it's a = {b}, c"
    names = {"OUT": odd, "DATA": odd, "MODEL_PATH": f"/{odd}"}
    verl = native("run_qwen3_4b_base_math.sh", tmp_path, VERL_USE_EXTERNAL_MODULES="mine", **names)
    assert verl.trainer.default_local_dir == f"{Path.cwd()}/{odd}/verl"
    assert verl.data.train_files == f"{Path.cwd()}/{odd}/dapo.parquet"
    assert verl.data.val_files[3] == f"{Path.cwd()}/{odd}/minerva.parquet"
    assert len(verl.data.val_files) == 4
    assert verl.actor_rollout_ref.model.path == f"/{odd}"
    modules = verl.ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_MODULES
    assert modules == "mine,metis.engines.verl.trainer"


@pytest.mark.parametrize("hours", ["abc", "0,1", "0", "-1"])
def test_a_time_that_is_none_is_refused(tmp_path, hours):
    with pytest.raises(subprocess.CalledProcessError) as caught:
        script("run_qwen3_4b_base_math.sh", tmp_path, HOURS=hours)
    assert f"HOURS={hours}: use" in caught.value.stderr


def test_part_of_an_hour_will_do(tmp_path):
    assert (
        native("run_qwen3_4b_base_math.sh", tmp_path, HOURS="0.5").trainer.v1.metis.seconds == 1800
    )


def test_scripts_run_verl_with_our_trainer(tmp_path):
    words = script("run_qwen3_4b_base_math.sh", tmp_path)
    assert words[:2] == ["-m", "verl.trainer.main_ppo"]
    for variable in (
        "VERL_USE_EXTERNAL_MODULES='metis.engines.verl.trainer'",
        "TORCH_CUDNN_SDPA_DEPRIORITIZED='1'",
        "VLLM_USE_FLASHINFER_SAMPLER='0'",
    ):
        assert any(word.endswith(variable) for word in words), shlex.join(words)


def test_variables_of_metis_reach_workers_of_a_running_cluster(tmp_path):
    given = {"METIS_HOME": "/it's here", "METIS_DATA": "/data", "METIS_TESTLIB": "/testlib.h"}
    told = native("run_qwen3_4b_base_math.sh", tmp_path, **given).ray_kwargs.ray_init.runtime_env
    assert told.env_vars.items() >= given.items()


def test_names_of_a_tracker_reach_a_running_cluster_and_its_key_does_not(tmp_path):
    given = {"WANDB_ENTITY": "team", "WANDB_TAGS": "a, b"}
    name, key = "run_qwen3_4b_base_math.sh", {"WANDB_API_KEY": "secret"}
    told = native(name, tmp_path, **given, **key).ray_kwargs.ray_init.runtime_env.env_vars
    assert told.items() >= given.items() and "WANDB_API_KEY" not in told
    assert "secret" not in " ".join(script(name, tmp_path, **given, **key))


@pytest.mark.parametrize("flash", [False, True])
def test_scripts_do_without_flash_attention_where_it_is_missing(tmp_path, flash):
    words = script("run_qwen3_4b_base_math.sh", tmp_path, flash)
    asked = "+actor_rollout_ref.model.override_config.attn_implementation=sdpa" in words
    assert asked is not flash


def test_every_script_is_checked():
    found = {path.name for path in (RECIPES / "verl").glob("run_*.sh")}
    assert found == set(SCRIPTS)
    readme = (RECIPES / "verl" / "README.md").read_text()
    assert all(name in readme for name in found)
