"""A recipe in verl's words: the command line composes, and says what the recipe said."""

import asyncio
import json
import re
import shlex
import signal
import subprocess
import sys
import zlib
from contextlib import nullcontext
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from unittest.mock import Mock

import datasets
import pytest
from omegaconf import OmegaConf
from pyarrow import parquet
from transformers import AutoConfig
from verl.utils.config import validate_config

import made_up_problems
from composing import composed
from integration.conftest import save_tiny
from metis import MetisError
from metis.cli import main
from metis.config import load_config
from metis.core import state
from metis.core.needs import needs_of
from metis.core.pool import Pool
from metis.curricula.judges import Direct, Reason
from metis.engines import model_files
from metis.engines.verl import reward
from metis.engines.verl.launch import command as launch
from metis.engines.verl.launch.checks import CHECKS, check_config, check_needs
from metis.engines.verl.launch.command import write_data
from metis.engines.verl.launch.from_recipe import ENDLESS, overrides
from metis.engines.verl.prompts import PromptData
from metis.engines.verl.reward import compute_score, score_math
from metis.engines.verl.trainer import MetisTrainer
from metis.engines.verl.trainer.checkpointing import Validating
from metis.engines.verl.workers.lengths import context as verl_context
from metis.engines.verl.workers.lengths import in_a_pass
from metis.engines.verl.workers.update import Update
from metis.errors import BadReward
from metis.run.budget import Account, Budget
from metis.run.folder import RunFolder
from metis.settings.sections import curriculum_of

OUT = Path("/runs/one, with 'odd' name")


def recipe(*words):
    return load_config(None, ["engine=verl", *words])


def test_a_recipe_reaches_verl():
    config = recipe(
        *("batch=16", "group=4", "steps=7", "seed=3", "evaluate=0", "engine.kl=0.5"),
        *("engine.minibatch=8", "engine.ratio=sequence", "engine.lora=4", "engine.gpus=8"),
        "engine.generation=transformers",
        'engine.overrides=["trainer.balance_batch=False"]',
    )
    verl = composed(overrides(config, OUT, "/models/x"))
    check_config(verl)
    validate_config(verl, use_reference_policy=True, use_critic=False)
    actor, rollout = verl.actor_rollout_ref.actor, verl.actor_rollout_ref.rollout
    assert (verl.data.train_batch_size, rollout.n, actor.ppo_mini_batch_size) == (16, 4, 8)
    assert (actor.use_kl_loss, actor.kl_loss_coef) == (True, 0.5)
    assert actor.policy_loss.loss_mode == "gspo"
    assert actor.strategy == verl.actor_rollout_ref.ref.strategy == "fsdp2", "for LoRA"
    assert actor.optim.lr == 2e-6 and verl.trainer.n_gpus_per_node == 8
    assert verl.actor_rollout_ref.model.path == "/models/x"
    assert verl.trainer.default_local_dir == str(OUT / "verl")
    assert verl.trainer.total_training_steps == 7 and verl.trainer.test_freq == ENDLESS
    assert not verl.trainer.balance_batch
    assert rollout.logprobs_mode == "raw_logprobs" and rollout.calculate_log_probs
    section = OmegaConf.to_container(verl.trainer.v1.metis.curriculum)
    assert curriculum_of(section, 16, 4) == config.curriculum


def test_loggers_are_added_to_verl_s_under_the_names_that_are_set(monkeypatch):
    for name in ("WANDB_PROJECT", "WANDB_NAME"):
        monkeypatch.delenv(name, raising=False)

    def trainer(config):
        return composed(overrides(config, OUT, "m")).trainer

    named = attrgetter("project_name", "experiment_name")
    plain = trainer(recipe("loggers=tensorboard"))
    assert list(plain.logger) == ["console", "tensorboard"]
    assert named(plain) == ("metis", OUT.name)
    monkeypatch.setitem(sys.modules, "wandb", ModuleType("wandb"))
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    monkeypatch.setenv("WANDB_NAME", "first try")
    assert named(trainer(recipe("loggers=wandb"))) == ("mine", "first try")
    assert named(trainer(recipe("loggers=tensorboard"))) == ("metis", OUT.name)


@pytest.mark.parametrize("name", ["uniform", "speed", "dapo", "adcl", "metis", "sec"])
def test_every_curriculum_survives_the_command_line(name):
    config = recipe(f"curriculum={name}")
    verl = composed(overrides(config, OUT, "m"))
    section = OmegaConf.to_container(verl.trainer.v1.metis.curriculum)
    again = curriculum_of(section, config.training.batch, config.training.group)
    assert state.encoded(again.state_dict()) == state.encoded(config.curriculum.state_dict())
    settings = [field.name for field in fields(again) if field.init]
    assert settings and type(again) is type(config.curriculum)
    assert attrgetter(*settings)(again) == attrgetter(*settings)(config.curriculum)


WRONG = {
    "trainer.use_v1": "False",
    "algorithm.filter_groups.enable": "True",
    "trainer.v1.sampler.sync_refill_failed_groups": "True",
    "trainer.v1.sampler.custom_sampler.path": "x.py",
    "reward.reward_model.enable": "True",
    "distillation.enabled": "True",
    "actor_rollout_ref.hybrid_engine": "False",
    "actor_rollout_ref.actor.strategy": "megatron",
    "actor_rollout_ref.actor.router_replay.mode": "R2",
    "actor_rollout_ref.actor.shuffle": "True",
    "actor_rollout_ref.rollout.calculate_log_probs": "False",
    "actor_rollout_ref.actor.checkpoint.async_save": "True",
    "skip.rollout_tq.enable": "True",
}


@pytest.mark.parametrize("key", CHECKS)
def test_what_does_not_go_together_is_refused_with_a_reason(key):
    verl = composed([])
    check_config(verl)
    OmegaConf.update(verl, key, OmegaConf.create(f"x: {WRONG[key]}").x, force_add=True)
    with pytest.raises(MetisError, match=f"{key} = .*since"):
        check_config(verl)


ACTOR, ROLLOUT, REF = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "ref"))
STATIC = [f"{ACTOR}.use_dynamic_bsz=False", f"{ACTOR}.ppo_micro_batch_size_per_gpu=2"]
SIZED = [*STATIC, f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=3"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([f"{ROLLOUT}.log_prob_use_dynamic_bsz=False"], r"rollout.log_prob_use_dynamic_bsz = Fa"),
        ([*SIZED, f"{ROLLOUT}.log_prob_use_dynamic_bsz=True"], r"log_prob_use_dynamic_bsz = True"),
        (STATIC, r"rollout.log_prob_micro_batch_size_per_gpu = None"),
        (STATIC[:1], r"actor.ppo_micro_batch_size_per_gpu = None"),
        ([*SIZED, f"{ACTOR}.use_kl_loss=True"], r"ref.log_prob_micro_batch_size_per_gpu = None"),
    ],
)
def test_micro_batches_are_all_cut_by_tokens_or_all_by_known_numbers_of_rows(words, message):
    with pytest.raises(MetisError, match=message):
        check_config(composed(words))


def test_static_micro_batches_have_a_common_multiple():
    kl = [f"{ACTOR}.use_kl_loss=True", f"{REF}.log_prob_micro_batch_size_per_gpu=5"]
    for words, multiple in (([], 1), (SIZED, 6), ([*SIZED, *kl], 30)):
        verl = composed(words)
        check_config(verl)
        assert Update(verl)._multiple() == multiple


def test_a_run_logs_to_the_console_and_keeps_few_checkpoints_unless_told_otherwise():
    trainer = composed([]).trainer
    assert list(trainer.logger) == ["console"]
    assert trainer.max_actor_ckpt_to_keep == trainer.max_critic_ckpt_to_keep == 2
    assert list(composed(["trainer.logger=[console,wandb]"]).trainer.logger)[1:] == ["wandb"]


def test_other_trainers_and_estimators_are_refused():
    with pytest.raises(MetisError, match="an asynchronous trainer does not wait for"):
        check_config(composed(["trainer.v1.trainer_mode=colocate_async"]))
    with pytest.raises(MetisError, match="adv_estimator = 'gae'"):
        check_config(composed(["algorithm.adv_estimator=gae"]))
    with pytest.raises(MetisError, match=r"engine\.overrides"):
        recipe('engine.overrides=["trainer.v1.trainer_mode=separate_async"]')


def test_a_loss_that_depends_on_the_width_of_a_batch_is_refused():
    mode = "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm"
    with pytest.raises(MetisError, match=r"loss_scale_factor = None"):
        check_config(composed([mode]))
    check_config(composed([mode, "actor_rollout_ref.actor.loss_scale_factor=64"]))
    with pytest.raises(MetisError, match=r"loss_mode = 'geo_mean': verl"):
        check_config(composed(["actor_rollout_ref.actor.policy_loss.loss_mode=geo_mean"]))


LORA = "actor_rollout_ref.model.lora_rank=8"


def test_fsdp1_is_refused_where_peft_finds_no_adapters_in_it():
    with pytest.raises(MetisError) as error:
        check_config(composed([LORA]))
    wrong, remedy = str(error.value).split("; ")
    assert wrong.startswith(f"{ACTOR}.strategy = 'fsdp': with lora_rank = 8 and peft 0.")
    assert remedy.startswith(f"set {ACTOR}.strategy=fsdp2")


@pytest.mark.parametrize(
    "words", [[f"{ACTOR}.strategy=fsdp2"], ["actor_rollout_ref.model.lora.merge=True"]]
)
def test_adapters_that_verl_finds_or_merges_are_let_through(words):
    check_config(composed([LORA, *words]))


def test_fsdp1_is_let_through_where_peft_finds_adapters_in_it(monkeypatch):
    """By their keys alone, as before peft 0.21."""

    def by_key(model, state_dict):
        return {key: value for key, value in state_dict.items() if "lora_" in key}

    monkeypatch.setattr("peft.get_peft_model_state_dict", by_key)
    check_config(composed([LORA]))


def test_log_probabilities_are_those_of_the_temperature():
    with pytest.raises(MetisError, match=r"with temperature = 0\.6 use processed_logprobs"):
        check_config(composed(["actor_rollout_ref.rollout.temperature=0.6"]))
    config = recipe("curriculum=dapo", "engine.temperature=0.6")
    verl = composed(overrides(config, OUT, "m"))
    check_config(verl)
    assert verl.actor_rollout_ref.rollout.logprobs_mode == "processed_logprobs"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["rollout.temperature=0.6", "rollout.logprobs_mode=processed_logprobs"],
            r"temperature = 0\.6: judgments are trained at",
        ),
        (["model.use_fused_kernels=True"], r"use_fused_kernels = True: .* no logits"),
        (["actor.pad_to_length=True"], r"fsdp_config.pad_to_length = True: .* no logits"),
    ],
)
def test_what_a_judge_needs_is_known_before_anything_starts(words, message):
    verl = composed([f"actor_rollout_ref.{word}" for word in ["rollout.name=vllm", *words]])
    verl.data.train_batch_size = 16
    with pytest.raises(MetisError, match=message):
        MetisTrainer(verl)


def test_a_judge_that_replies_does_without_logits():
    needs = Reason().needs(16)
    check_needs(composed(["actor_rollout_ref.model.use_fused_kernels=True"]), needs)


def test_a_judge_that_replies_at_another_temperature_than_it_is_trained_at_is_refused():
    refused = pytest.raises(MetisError, match=r"judge\.temperature = 0\.7: on verl .* engine=local")
    with refused:
        check_needs(composed([]), Reason(temperature=0.7).needs(16))
    check_needs(composed([]), Direct().needs(16))


@pytest.mark.parametrize(
    ("cut", "refused"),
    [(list, True), (lambda text: [text[:-2], text[-2:]], False)],
    ids=["by letters", "two digits at once"],
)
def test_the_trainer_knows_by_its_tokenizer_that_values_need_packed_rows(cut, refused, monkeypatch):
    def tokenizer(text, add_special_tokens):
        return {"input_ids": [zlib.crc32(part.encode()) for part in cut(text)]}

    trainer = MetisTrainer.__new__(MetisTrainer)
    trainer.config = composed(["actor_rollout_ref.model.use_remove_padding=False"])
    trainer.curriculum = curriculum_of("metis", 4, 8)
    trainer.tokenizer = Mock(side_effect=tokenizer, name_or_path="/m")
    monkeypatch.setattr(Validating, "_init_tokenizer", lambda self: None)
    message = r"use_remove_padding = False: .*judge\.scale=passes"
    with pytest.raises(MetisError, match=message) if refused else nullcontext():
        trainer._init_tokenizer()


CRITIC = ["critic.enable=True", "critic.model.path=/m"]


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("pcl", [], "critic.enable = None: this curriculum trains a value model"),
        ("pcl", [*CRITIC, "critic.optim.lr=0.5"], r"critic.optim.lr = 0.5: the curriculum asks"),
    ],
)
def test_needs_that_verl_cannot_serve_are_refused_before_workers_start(name, words, message):
    curriculum = curriculum_of(name, 4, 8)
    with pytest.raises(MetisError, match=message):
        check_needs(composed(words), needs_of(curriculum))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *((name, []) for name in ("metis", "sec", "probe", "dots")),
        ("pcl", [*CRITIC, "critic.optim.lr=1e-4"]),
    ],
)
def test_needs_that_verl_serves_are_let_through(name, words, monkeypatch):
    monkeypatch.setattr(f"{check_needs.__module__}.find_spec", lambda name: name)
    check_needs(composed(words), needs_of(curriculum_of(name, 4, 8)))


def test_a_value_model_of_its_own_needs_flash_attn(monkeypatch):
    monkeypatch.setattr(f"{check_needs.__module__}.find_spec", lambda name: None)
    verl = composed([*CRITIC, "critic.optim.lr=1e-4"])
    with pytest.raises(MetisError, match=r"flash-attn, .*install flash-attn .*backbone=policy"):
        check_needs(verl, needs_of(curriculum_of("pcl", 4, 8)))
    on_the_policy = curriculum_of({"name": "pcl", "backbone": "policy"}, 4, 8)
    check_needs(composed([]), needs_of(on_the_policy))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("rewards=contiuous", r"rewards = 'contiuous': use \('binary', 'continuous'\)"),
        ("seconds=-5", "seconds = -5: use a number, 0 or more"),
        ("best=maybe", "best = 'maybe'"),
        ("loggers_every=-1", "loggers_every = -1: use a whole number, 0 or more"),
        ("loggers_every=1.5", r"loggers_every = 1\.5: use a whole number, 0 or more"),
        ("transcripts=some", r"transcripts = 'some': use \('all', 'sample', 'none'\)"),
        ("transcripts_gb=-1", "transcripts_gb = -1: use a number, 0 or more"),
    ],
)
def test_the_section_of_a_curriculum_is_checked(word, message):
    with pytest.raises(MetisError, match=r"trainer\.v1\.metis\." + message):
        check_config(composed([f"trainer.v1.metis.{word}"]))
    with pytest.raises(MetisError, match=r"trainer\.v1\.metis\.second = 5: the keys are"):
        check_config(composed(["+trainer.v1.metis.second=5"]))
    with pytest.raises(MetisError, match=r"answers = 3: it is transcripts"):
        check_config(composed(["+trainer.v1.metis.answers=3"]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["engine.temperature=0.7"], r"engine\.temperature = 0\.7: judgments are trained at"),
        (["batch=100"], "batch = 100: the training set has only 40 prompts"),
        (["engine.gpus=3", "engine.tensor=2"], r"engine\.tensor = 2: it must divide 3 GPUs"),
        (["engine.generation=vllm"], "vllm is not installed: pip install -e '"),
    ],
)
def test_what_cannot_work_is_refused_before_a_folder_is_made(
    words, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(launch, "find_spec", lambda name: None if name == "vllm" else name)
    usual = ["engine=verl", "engine.generation=transformers", "task.prompts=40"]
    command = ["train", *usual, *words, "--out", str(tmp_path / "run")]
    assert main(command) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


def test_a_run_that_has_not_begun_takes_other_settings(tmp_path, monkeypatch):
    monkeypatch.setattr(model_files, "model", Path)
    monkeypatch.setattr(launch, "_run", lambda *_: 1)
    words = ["engine=verl", "engine.generation=transformers", "engine.model=/m", "task.prompts=40"]

    def start(*more):
        return main(["train", *words, *more, "--out", str(tmp_path / "run")])

    assert start("engine.lora=2") == start("engine.lora=4") == 1
    (tmp_path / "run" / "metrics.jsonl").write_text('{"step": 0}\n')
    assert start("engine.lora=8") == 1
    (tmp_path / "run" / "timings.jsonl").write_text('{"step": 1}\n')
    assert start("engine.lora=16") == 2
    assert start("engine.lora=8") == 1


ATTENTION = "+actor_rollout_ref.model.override_config.attn_implementation"


@pytest.mark.parametrize(
    ("installed", "given", "words"),
    [
        (True, [], []),
        (False, [], [f"{ATTENTION}=sdpa"]),
        (False, [f"{ATTENTION}=eager"], [f"{ATTENTION}=eager"]),
        (False, ["+critic.model.override_config.attn_implementation=eager"], [f"{ATTENTION}=sdpa"]),
    ],
)
def test_where_flash_attn_is_missing_torch_attends(installed, given, words, monkeypatch):
    monkeypatch.setattr(f"{overrides.__module__}.find_spec", lambda name: installed or None)
    config = recipe(f"engine.overrides={json.dumps(given)}")
    written = overrides(config, Path("/run"), "/model")
    assert [word for word in written if word.startswith(ATTENTION)] == words
    composed(written)


def test_sequences_are_not_spread_over_gpus_without_flash_attn(monkeypatch):
    monkeypatch.setattr(f"{overrides.__module__}.find_spec", lambda name: None)
    word = "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2"
    with pytest.raises(MetisError, match=r"ulysses.*flash-attn"):
        overrides(recipe(f'engine.overrides=["{word}"]'), Path("/run"), "/model")


def test_ctrl_c_leaves_verl_time_to_end(monkeypatch):
    process = Mock()
    process.wait.side_effect = [KeyboardInterrupt, 0]
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: process)
    with pytest.raises(KeyboardInterrupt):
        launch._run(["verl"], {})
    assert process.wait.call_args.kwargs == {"timeout": launch.PATIENCE}


def test_a_polite_end_reaches_verl():
    """A process that is told to end takes the command with it."""
    child = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(60)"]
    parent = (
        f"from metis.engines.verl.launch.command import _run; raise SystemExit(_run({child}, None))"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"begun\n"
        process.terminate()
        assert process.wait(timeout=30) == 128 + signal.SIGTERM


class Dataset:
    """The part of verl's data set that `PromptData` needs."""

    prompt_key = "prompt"
    image_key, video_key, audio_key = "images", "videos", "audios"

    def __init__(self, rows):
        self.dataframe = datasets.Dataset.from_list(rows)


def first_written(config, folder):
    write_data(config, folder)
    return parquet.read_table(folder / "heldout.parquet").to_pylist()[0]


def test_the_data_come_back_as_the_pool_they_were(tmp_path):
    config = recipe("task.prompts=12", "task.heldout=3")
    write_data(config, tmp_path)
    data = PromptData(Dataset(parquet.read_table(tmp_path / "train.parquet").to_pylist()))
    assert Pool(data.prompts).fingerprint == Pool(config.task.training()).fingerprint
    assert len(parquet.read_table(tmp_path / "heldout.parquet")) == 3


def test_every_benchmark_is_a_data_source_of_its_own(tmp_path):
    files = [made_up_problems.write(tmp_path / f"{name}.jsonl") for name in ("easy", "hard")]
    config = recipe(f"benchmarks={[str(file) for file in files]}", "task.prompts=4")
    write_data(config, tmp_path)
    tested = parquet.read_table(tmp_path / "heldout.parquet").to_pylist()
    assert {row["data_source"] for row in tested} == {"easy", "hard"}
    assert len(tested) == len(config.task.heldout())


def test_prompts_of_other_data_are_named_and_read_by_what_there_is():
    said = [{"role": "system", "content": "s"}, {"role": "user", "content": "What?"}]
    row = {"data_source": "gsm8k", "prompt": said, "extra_info": {"index": 5}}
    other = {"data_source": "gsm8k", "prompt": said, "extra_info": None}
    first, second = PromptData(Dataset([row, other])).prompts
    assert (first.id, first.text, first.category) == ("gsm8k:5", "What?", "gsm8k")
    assert second.id == "gsm8k:1"
    hard = row | {"extra_info": {"index": 5, "difficulty": "hard"}}
    with pytest.raises(MetisError, match=r"extra_info\.difficulty of row 0 is 'hard'"):
        PromptData(Dataset([hard]))
    with pytest.raises(MetisError, match=r"the column 'images' is not text"):
        PromptData(Dataset([row | {"images": ["x.png"]}]))
    with pytest.raises(MetisError, match=r"row 0 has no user message of plain text"):
        PromptData(Dataset([{**row, "prompt": [{"role": "user", "content": [{"image": 1}]}]}]))


def test_the_reward_is_the_task_s(tmp_path):
    config = recipe("task.prompts=6", "task.heldout=2", "seed=4")
    with RunFolder.open(tmp_path / "run", config.resolved):
        pass
    row = first_written(config, tmp_path)
    name = row["extra_info"]["id"]
    answer = str(config.task.answers[name])
    for reply, expected in ((f"it is {answer}", 1.0), ("no idea", 0.0)):
        score = compute_score("metis", reply, "", row["extra_info"], run=str(tmp_path / "run"))
        assert asyncio.run(score) == {"score": expected, "acc": expected}


@pytest.mark.parametrize(
    ("words", "workers", "of_a_node"),
    [
        ([], 8, 8),
        (["engine.nodes=12"], 96, 8),
        (["engine.nodes=12", 'engine.overrides=["reward.num_workers=30"]'], 30, 3),
    ],
)
def test_reward_workers_of_a_node_divide_what_it_can_score(words, workers, of_a_node, monkeypatch):
    verl = composed(overrides(recipe(*words), OUT, "m")).reward
    monkeypatch.setattr(reward, "_played", lambda *given: given[-1])
    named = OmegaConf.to_container(verl.custom_reward_function, resolve=True)["reward_kwargs"]
    assert verl.num_workers == workers and reward.loaded_task(**named) == of_a_node


def test_files_of_a_task_are_found_from_where_they_were_named(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    made_up_problems.write(tmp_path / "work" / "problems.jsonl", 12)
    monkeypatch.chdir(tmp_path / "work")
    config = recipe("task=math", "task.path=problems.jsonl", "task.heldout=2", "task.verify=false")
    with RunFolder.open(tmp_path / "run", config.resolved):
        pass
    words = composed(overrides(config, tmp_path / "run", "m")).reward.custom_reward_function
    row = first_written(config, tmp_path)
    monkeypatch.chdir("/")
    score = compute_score("metis", "no idea", "", row["extra_info"], **words.reward_kwargs)
    assert asyncio.run(score)["score"] == 0.0


OWN = """
import threading

async def score(completions, answer, how, log_metric, **columns):
    if how[0] == "hangs":
        threading.Event().wait(5.0)
    log_metric("length", len(completions[0][0]["content"]))
    return {"raises": lambda: [1 / 0], "none": lambda: None}.get(how[0], lambda: [0.5])()
"""


def test_a_reward_of_one_s_own_is_found_from_where_it_was_named_and_may_fail(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    Path("mine.py").write_text(OWN)
    kinds = ("works", "raises", "none", "hangs", "tested")
    problems = [{"id": how, "problem": how, "answer": "1", "how": how} for how in kinds]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in problems))
    config = recipe(
        *("task=file", "task.path=rows.jsonl", "task.heldout=1", "task.reward=mine.py:score"),
        "engine.reward_timeout=2.0",
    )
    assert composed(overrides(config, OUT, "m")).trainer.v1.metis.rewards == "continuous"
    with RunFolder.open(tmp_path / "run", config.resolved):
        pass
    words = composed(overrides(config, tmp_path / "run", "m")).reward.custom_reward_function
    monkeypatch.chdir("/")

    def scored(how):
        about = {"id": f"rows:{how}"}
        return asyncio.run(compute_score("metis", "good", "", about, **words.reward_kwargs))

    said = {"score": 0.5, "acc": 0.5, "reward/length": 4.0}
    assert scored("works") == said
    with pytest.raises(ZeroDivisionError):
        scored("raises")
    with pytest.raises(BadReward, match=r"mine.py:score returned None, not a list of one number"):
        scored("none")
    with pytest.raises(TimeoutError, match=r"mine.py:score took longer than engine.reward_timeout"):
        scored("hangs")


def test_math_is_scored_by_the_data_alone():
    found = score_math("metis/math", r"so \boxed{012}", "12", {"id": "math:1"}, verify=False)
    assert found == {"score": 1.0, "acc": 1.0}
    assert score_math("mine", r"\boxed{13}", "12", verify=False)["score"] == 0.0


def test_a_budget_reaches_verl_and_no_number_of_steps_is_in_its_way():
    verl = composed(overrides(recipe("steps=0", "tokens=5", "seconds=7.5"), OUT, "m"))
    assert (verl.trainer.v1.metis.tokens, verl.trainer.v1.metis.seconds) == (5, 7.5)
    assert verl.trainer.total_training_steps == ENDLESS


@pytest.mark.parametrize(("words", "every"), [([], 10), (["loggers_every=3"], 3)])
def test_verl_shows_answers_to_trackers_as_often_as_is_said(words, every):
    verl = composed(overrides(recipe(*words), OUT, "m"))
    check_config(verl)
    assert verl.trainer.v1.metis.loggers_every == every


def test_verl_keeps_as_much_of_what_was_said_as_is_said():
    verl = composed(overrides(recipe("transcripts=sample", "transcripts_gb=0.5"), OUT, "m"))
    check_config(verl)
    assert (verl.trainer.v1.metis.transcripts, verl.trainer.v1.metis.transcripts_gb) == (
        "sample",
        0.5,
    )


def test_workers_of_a_running_cluster_are_told_of_the_trainer_and_of_kernels(monkeypatch):
    def told(*words):
        verl = composed(overrides(recipe(*words), OUT, "m"))
        return OmegaConf.to_container(verl.ray_kwargs.ray_init.runtime_env.env_vars)

    wanted = {
        "VERL_USE_EXTERNAL_MODULES": "metis.engines.verl.trainer",
        "TORCH_CUDNN_SDPA_DEPRIORITIZED": "1",
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
    }
    assert told().items() >= wanted.items()
    assert "VLLM_USE_FLASHINFER_SAMPLER" not in told("engine.top_p=0.9")
    monkeypatch.setenv("TORCH_CUDNN_SDPA_DEPRIORITIZED", "0")
    assert told()["TORCH_CUDNN_SDPA_DEPRIORITIZED"] == "0"


def test_variables_of_metis_reach_workers_of_a_running_cluster(monkeypatch):
    given = {"METIS_HOME": "/it's here", "METIS_DATA": "/data", "METIS_SANDBOX_LIBRARIES": "/a:/b"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    verl = composed(overrides(recipe(), OUT, "m"))
    assert verl.ray_kwargs.ray_init.runtime_env.env_vars.items() >= given.items()


def test_names_of_a_tracker_reach_a_running_cluster_and_its_key_does_not(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", ModuleType("wandb"))
    given = {"WANDB_ENTITY": "team", "WANDB_TAGS": "a, b", "TENSORBOARD_DIR": "/events"}
    for name, value in {**given, "WANDB_API_KEY": "secret"}.items():
        monkeypatch.setenv(name, value)
    words = overrides(recipe("loggers=wandb,tensorboard"), OUT, "m")
    told = composed(words).ray_kwargs.ray_init.runtime_env.env_vars
    assert told.items() >= given.items()
    assert "secret" not in " ".join(words)
    assert "WANDB_ENTITY" not in " ".join(overrides(recipe(), OUT, "m"))


def test_the_servers_context_ends_where_the_model_does(tmp_path):
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 2048}')
    words = ["engine.max_prompt=1000", "engine.max_tokens=500"]

    def context(*more):
        return composed(
            overrides(recipe(*words, *more), OUT, str(tmp_path))
        ).actor_rollout_ref.rollout.max_model_len

    assert context() == 2048
    assert context("engine.context=1800") == 1800
    with pytest.raises(MetisError, match=r"engine\.max_tokens = 2000:.*2048 tokens"):
        context("engine.max_tokens=2000")


def test_a_context_that_verl_was_not_told_is_the_model_s_and_fits_a_pass(tmp_path):
    model = save_tiny(tmp_path / "model")
    verl = composed(["actor_rollout_ref.actor.ppo_max_token_len_per_gpu=1000"])
    longest = verl_context(verl, str(model))
    assert verl.actor_rollout_ref.rollout.max_model_len is None
    assert longest == min(1000, AutoConfig.from_pretrained(model).max_position_embeddings)
    verl.actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size = 2
    assert in_a_pass(verl) == 2000
    verl.actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu = 300
    assert in_a_pass(verl) == 600
    verl.actor_rollout_ref.rollout.max_model_len = 200
    assert verl_context(verl, str(model)) == 200


@pytest.mark.parametrize(
    ("steps", "said"),
    [(5, "this run is complete"), (3, "this run is at step 5, past steps = 3; to train on")],
)
def test_a_run_that_is_complete_is_not_started_again(tmp_path, capsys, monkeypatch, steps, said):
    monkeypatch.setattr(model_files, "model", Path)
    out = tmp_path / "run"
    words = ["engine=verl", "engine.generation=transformers", "engine.model=/models/x"]
    words += ["task.prompts=40", "steps=5"]
    with RunFolder.open(out, load_config(None, words).resolved):
        pass
    checkpoint = out / "verl" / "global_step_5"
    checkpoint.mkdir(parents=True)
    state.save_state(checkpoint / "metis.state", Account(Budget(steps=5), 5).state_dict())
    (out / "verl" / "latest_checkpointed_iteration.txt").write_text("5")
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("verl was started"))
    before = (out / "config.json").read_bytes()
    assert main(["train", *words, f"steps={steps}", "--out", str(out)]) == 0
    assert said in capsys.readouterr().out
    assert (out / "config.json").read_bytes() == before


def test_the_command_in_the_documentation_composes():
    text = (Path(__file__).parents[2] / "docs" / "verl.md").read_text()
    [command] = re.findall(
        r"^VERL_USE_EXTERNAL_MODULES=.*?(?=^```)", text, re.DOTALL | re.MULTILINE
    )
    words = shlex.split(command.replace("\\\n", ""))
    assert words[1 : 2 + len(launch.MAIN)] == ["python", *launch.MAIN]
    verl = composed(words[2 + len(launch.MAIN) :])
    check_config(verl)
    assert verl.trainer.v1.metis.curriculum.multiplier == 4


def test_a_damaged_marker_of_verl_s_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(model_files, "model", Path)
    marker = tmp_path / "run" / "verl" / "latest_checkpointed_iteration.txt"
    marker.parent.mkdir(parents=True)
    marker.write_text("")
    words = ["engine=verl", "engine.generation=transformers", "engine.model=/models/x"]
    assert main(["train", *words, "task.prompts=40", "--out", str(tmp_path / "run")]) == 2
    assert f"{marker} holds '', not a step" in capsys.readouterr().err


def test_a_dry_run_prints_the_command(capsys):
    assert main(["train", "engine=verl", "--dry-run", "--out", "x"]) == 0
    printed, remarks = capsys.readouterr()
    assert "is written to x/data first" in remarks
    assert "each judgment repeats its judge prompt in the update, several times" in remarks
    assert "smollm2-135m" in remarks
    assert ("flash-attn" in remarks) == ("attn_implementation=sdpa" in printed)
    assert "VERL_USE_EXTERNAL_MODULES=metis.engines.verl.trainer" in printed
    words = shlex.split(printed.replace("\\\n", ""))
    words = words[words.index("python") + 1 :]
    assert words[: len(launch.MAIN)] == launch.MAIN
    check_config(composed(words[len(launch.MAIN) :]))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["curriculum.judge.scale=passes"],
            "its judge prompt in the update, once, and so does each of up to 64 replayed ones",
        ),
        (
            ["curriculum.judge.replay=100"],
            "scale=passes), and so does each of up to 100 replayed ones (curriculum.judge.replay)",
        ),
        (
            ["curriculum.judge.replay=0"],
            "scale=passes); curriculum.judge.train=0.25 trains on a quarter",
        ),
        (["curriculum.judge=reason"], None),
        (["curriculum=uniform"], None),
    ],
)
def test_what_a_scored_judgment_costs_is_said_before_a_run(words, said):
    remarks = list(launch._remarks(recipe(*words), OUT, dry_run=False))
    if said is None:
        assert remarks == []
    else:
        assert said in remarks[0] and len(remarks) == 1


@pytest.mark.parametrize(
    ("spent", "step", "tested", "saved", "last"),
    [
        (0.1, 1, False, False, False),
        (0.1, 3, False, True, False),
        (0.1, 2, True, False, False),
        (2.0, 1, True, True, True),
    ],
)
def test_the_step_that_ends_the_budget_is_saved_tested_and_the_last(
    spent, step, tested, saved, last
):
    trainer = MetisTrainer.__new__(MetisTrainer)
    trainer.config = OmegaConf.create({"trainer": {"test_freq": 2, "save_freq": 3}})
    trainer.global_steps, trainer.total_training_steps = step, 99
    trainer.test_every, trainer.save_every = 2, 3
    trainer.account = Account(Budget(seconds=1.0), step, spent)
    trainer._schedule()
    frequencies = trainer.config.trainer
    assert (frequencies.test_freq == 1, frequencies.save_freq == 1) == (tested, saved)
    assert (trainer.total_training_steps == step) == last


def test_the_command_of_the_documentation_leaves_nothing_open():
    text = Path(__file__).parents[2].joinpath("docs", "verl.md").read_text()
    block = next(part for part in text.split("```") if "verl.trainer.main_ppo" in part)
    words = shlex.split(block.replace("\\\n", " "))
    config = composed(words[words.index("metis_trainer") + 1 :])
    chosen = config.trainer.v1.metis.curriculum
    judge = (chosen.judge.scale, chosen.judge.train)
    assert (chosen.name, *judge, config.data.train_batch_size) == ("metis", "passes", 0.25, 64)
    assert not OmegaConf.missing_keys(config.actor_rollout_ref)
    check_config(config)
