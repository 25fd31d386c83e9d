"""verl itself, from its command line: Ray, TransferQueue, FSDP on gloo, a rollout server."""

import json
import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from integration.conftest import byte_tokenizer, save_tiny
from metis import Group, Pool, Progress, Prompt, drive
from metis.core import state
from metis.curricula.judges import History
from metis.curricula.judges.scale import VARIANCE
from metis.curricula.knapsack import Knapsack
from metis.engines.local.engine import LocalEngine
from metis.engines.local.settings import LocalSettings
from metis.engines.objective.gradient_bound import MEMORY
from metis.engines.verl.launch.command import MAIN
from metis.engines.verl.launch.from_recipe import MODULE
from metis.evals.subject import find
from metis.export.write import export
from metis.run import folder as run_folder
from metis.run.metrics import unexplained
from metis.run.transcripts import members
from opening import OWN, REWARDS, SCORED, fixed_batch, marks
from running import HERE, cpu_overrides, finish, start

pytestmark = pytest.mark.slow

BATCH, GROUP, RATE = 4, 4, 0.1
REPLAYED = (0, BATCH - 1)
"""Outcomes judged again in the second and third step: those of the second but its exemplar."""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Problems in the form verl's users have them."""
    from pyarrow import Table, parquet

    rows = [
        {
            "data_source": "sums",
            "prompt": [{"role": "user", "content": f"What is {i} + {i % 7}?"}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(i + i % 7)},
            "extra_info": {"index": i},
        }
        for i in range(64)
    ]
    folder = tmp_path_factory.mktemp("data")
    parquet.write_table(Table.from_pylist(rows), folder / "train.parquet")
    parquet.write_table(Table.from_pylist(rows[:4]), folder / "heldout.parquet")
    parquet.write_table(Table.from_pylist(rows[:8]), folder / "few.parquet")
    return folder


def native(model, data, out, workers, *more):
    """The command of a verl user."""
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    return [
        *MAIN,
        f"data.train_files={data}/train.parquet",
        f"data.val_files={data}/heldout.parquet",
        f"data.train_batch_size={BATCH}",
        "data.max_prompt_length=64",
        "data.max_response_length=8",
        f"actor_rollout_ref.model.path={model}",
        f"{actor}.optim.lr={RATE}",
        f"{actor}.optim.weight_decay=0",
        f"{actor}.ppo_mini_batch_size=2",
        f"{actor}.clip_ratio_c=1000",  # verl's second bound, which the local engine does not have
        f"{rollout}.name=transformers",
        f"{rollout}.n={GROUP}",
        f"{rollout}.max_model_len=2048",
        f"{rollout}.tensor_model_parallel_size=1",
        "trainer.val_before_train=False",
        "trainer.logger=[console]",
        f"trainer.default_local_dir={out}",
        *cpu_overrides(workers),
        *more,
    ]


@pytest.fixture(scope="module")
def metis_run(model, data, tmp_path_factory):
    """Three steps on two workers, a checkpoint after each; then the third again, resumed."""
    folder = tmp_path_factory.mktemp("metis")
    curriculum = "trainer.v1.metis.curriculum"
    command = native(
        *(model, data),
        folder / "whole",
        2,
        f"{curriculum}.name='opening:Opening'",
        f"+{curriculum}.multiplier=3",
        f"+{curriculum}.judge.examples=1",
        f"+{curriculum}.trial=0",
        "trainer.total_training_steps=3",
        "trainer.save_freq=1",
        "trainer.max_actor_ckpt_to_keep=3",
        "trainer.test_freq=2",
    )
    finish(start(command, folder / "first", MODULE), folder / "first")
    shutil.copytree(folder / "whole", folder / "resumed")
    shutil.rmtree(folder / "resumed" / "global_step_3")
    (folder / "resumed" / "latest_checkpointed_iteration.txt").write_text("2")
    again = [word.replace(f"{folder}/whole", f"{folder}/resumed") for word in command]
    finish(start(again, folder / "second", MODULE), folder / "second")
    return folder


def weights(folder):
    return load_file(folder / "model.safetensors")


def test_what_is_written_down_is_explained(metis_run):
    logs = {log: run_folder.read_log(metis_run / "whole" / "metis", log) for log in run_folder.LOGS}
    for log, rows in logs.items():
        names = {name for row in rows for name in row}
        assert names, f"{log}.jsonl is empty"
        assert [name for name in unexplained(log, names) if not OWN.fullmatch(name)] == []
    steps = [row["step"] for row in logs["exemplars"]]
    assert steps == [3], "one a step, once there is an outcome to show"


def test_the_update_is_the_local_engine_s(metis_run, model):
    """The same rollouts and judgments, on two workers here and in one process there."""
    prompts = [Prompt(f"sums:{i}", f"What is {i} + {i % 7}?") for i in range(4)]
    settings = LocalSettings(model=str(model), device="cpu", minibatch=2)
    local = LocalEngine(settings, task=None)
    local.stepper.optimizer = torch.optim.SGD(local.policy.trainable, lr=RATE)
    pad = torch.tensor([byte_tokenizer().eos_token_id])  # verl does not train how it is read
    embedding = local.policy.network.get_input_embeddings().weight
    embedding.register_hook(lambda gradient: gradient.index_fill(0, pad, 0.0))
    local.update(drive(fixed_batch(prompts), local))
    before, here = weights(model), local.policy.network.state_dict()
    there = weights(metis_run / "whole" / "global_step_1" / "actor" / "huggingface")
    moved = max(float((there[name] - before[name]).abs().max()) for name in before)
    assert moved > 2e-3
    for name, weight in there.items():
        assert torch.allclose(weight, here[name], atol=1e-5), name


def test_states_are_the_local_engine_s(metis_run, model):
    """Of the initial policy, three prompts on two workers."""
    first = run_folder.read_log(metis_run / "whole" / "metis", "metrics")[0]

    def episode(prompt):
        return SimpleNamespace(chat=[{"role": "user", "content": prompt.text}])

    task = SimpleNamespace(episode=episode, training=list, heldout=list)
    local = LocalEngine(LocalSettings(model=str(model), device="cpu"), task)
    prompts = [Prompt(f"sums:{i}", f"What is {i} + {i % 7}?") for i in range(3)]
    for name, expected in marks(local.embed(prompts)).items():
        assert first[name] == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_the_first_step_had_the_rows_it_should(metis_run):
    rows = run_folder.read_log(metis_run / "whole" / "metis", "rollouts")
    assert [tuple(row["rewards"]) for row in rows if row["step"] == 1] == REWARDS
    first = run_folder.read_log(metis_run / "whole" / "metis", "metrics")[0]
    assert first["update/judgments"] == 2 + SCORED, "one row each"
    assert "judge/gradient_ratio" not in first, "the batch asks for no bound"


def test_every_step_judges_with_current_weights_and_trains_the_judge(metis_run):
    rows = run_folder.read_log(metis_run / "whole" / "metis", "metrics")
    assert [row["step"] for row in rows] == [1, 2, 3]
    for row, replayed in zip(rows[1:], REPLAYED, strict=True):
        assert row["judge/asked"] == 3 * BATCH + replayed
        assert row["rollout/generated"] == BATCH * GROUP
        assert row["update/judgments"] == BATCH + replayed
        assert 0 < row["judge/gradient_ratio"] <= 0.25 + 1e-9
        assert row["select/trial"] == 0
        assert np.isfinite(row["actor/grad_norm"]) and row["actor/grad_norm"] > 0
    timings = run_folder.read_log(metis_run / "whole" / "metis", "timings")
    assert all(row["judge"] > 0 and row["rollout"] > 0 for row in timings[1:])


def test_a_resumed_run_continues_prompts_memory_offsets_and_bound(metis_run):
    first, again = (metis_run / name / "metis" for name in ("whole", "resumed"))
    logs = [run_folder.read_log(folder, "judgments") for folder in (first, again)]
    steps = [[row for row in log if row["step"] == 3] for log in logs]
    assert len(steps[0]) == 3 * BATCH
    for before, after in zip(*steps, strict=True):
        assert (before["prompt"], before["chosen"]) == (after["prompt"], after["chosen"])
        assert before["score"] == pytest.approx(after["score"], abs=1e-5)
    last = [run_folder.read_log(folder, "metrics")[-1] for folder in (first, again)]
    assert last[0]["judge/v_hat_mean"] == pytest.approx(last[1]["judge/v_hat_mean"], abs=1e-5)
    shared = [[row for row in log if row["step"] < 3] for log in logs]
    assert shared[0] == shared[1]
    ends = [
        state.load_state(metis_run / name / "global_step_3" / "metis.state")
        for name in ("whole", "resumed")
    ]
    assert ends[0]["pool"] == ends[1]["pool"]
    asked = SCORED + 6 * BATCH + sum(REPLAYED)
    assert ends[0]["totals"]["judge/asked"] == ends[1]["totals"]["judge/asked"] == asked
    learnt = [end["curriculum"]["judge"] for end in ends]
    for part in (lambda judge: judge["memory"]["pairs"], lambda judge: judge["labels"]):
        kept, again = ([item for item in part(judge) if item[0] == 1] for judge in learnt)
        assert kept and str(kept) == str(again), "what the second step left behind"
    assert len(learnt[0]["offsets"]) == len(VARIANCE.choices) and any(learnt[0]["offsets"])
    before = state.load_state(metis_run / "resumed" / "global_step_2" / "metis.state")["bound"][
        "mean"
    ]
    for end in ends:  # two mini-batches a step
        assert end["bound"]["mean"] > MEMORY**2 * before > 0


def test_the_checkpoint_that_tested_best_is_kept_and_can_be_evaluated(metis_run):
    rows = run_folder.read_log(metis_run / "whole" / "metis", "metrics")
    tests = {row["step"]: row["eval/accuracy"] for row in rows if "eval/accuracy" in row}
    failed = {row["step"]: row.get("eval/failed", 0) for row in rows}
    assert list(tests) == [2, 3]
    best = max(tests, key=lambda step: tests[step])
    assert rows[-1]["eval/best_step"] == best == 3, "the later test was the better one"
    evals = run_folder.read_log(metis_run / "whole" / "metis", "evals")
    for step, accuracy in tests.items():
        rewards = {row["prompt"]: row["reward"] for row in evals if row["step"] == step}
        assert rewards.keys() == {f"sums:heldout:{i}" for i in range(4)}
        assert sum(rewards.values()) / 4 == pytest.approx(accuracy), "a failed answer earns nothing"
        assert list(rewards.values()).count(0.0) == failed[step]
    kept = metis_run / "whole" / "best"
    assert state.load_state(kept / "metis.state")["best"] == (best, tests[best])
    found = find(str(metis_run / "whole" / "metis"), "best")
    assert found.about["step"] == best and found.max_tokens == 8
    assert found.engine.model == str(kept / "actor" / "huggingface")
    assert weights(kept / "actor" / "huggingface")


def test_shards_of_two_workers_are_exported_as_one_model(metis_run, tmp_path):
    shutil.copytree(metis_run / "whole", tmp_path / "whole")
    model = tmp_path / "whole/best/actor/huggingface/model.safetensors"
    expected = load_file(model)
    model.unlink()
    export(tmp_path / "whole/metis", tmp_path / "model", say=lambda text: None)
    exported = weights(tmp_path / "model")
    assert exported.keys() == expected.keys()
    for name, weight in exported.items():
        assert torch.equal(weight, expected[name].bfloat16()), name


def test_rollouts_are_divided_on_two_workers_and_after_a_resume(model, data, tmp_path):
    """Knapsack RL on eight prompts: from the third step on all of them have been rolled out."""
    curriculum = "trainer.v1.metis.curriculum"
    command = native(
        *(model, data, tmp_path / "whole", 2),
        f"{curriculum}.name=knapsack",
        f"+{curriculum}.most=9",
        f"+{curriculum}.judge.enough=1",
        "trainer.total_training_steps=4",
        "trainer.save_freq=3",
        "trainer.test_freq=-1",
    )
    command = [word.replace("train.parquet", "few.parquet") for word in command]
    finish(start(command, tmp_path / "first", MODULE), tmp_path / "first")
    shutil.copytree(tmp_path / "whole", tmp_path / "resumed")
    shutil.rmtree(tmp_path / "resumed" / "global_step_4", ignore_errors=True)
    (tmp_path / "resumed" / "latest_checkpointed_iteration.txt").write_text("3")
    again = [word.replace(f"{tmp_path}/whole", f"{tmp_path}/resumed") for word in command]
    finish(start(again, tmp_path / "second", MODULE), tmp_path / "second")
    whole, resumed = (tmp_path / name / "metis" for name in ("whole", "resumed"))
    learner, varied, taught = History(enough=1), False, False
    pool = Pool([Prompt(f"sums:{i}", "") for i in range(8)])
    trained = run_folder.read_log(whole, "rollouts")
    for row in run_folder.read_log(whole, "metrics"):
        step = row["step"]
        groups = [group for group in trained if group["step"] == step]
        sizes = [len(group["rewards"]) + group["failed"] for group in groups]
        assert row["rollout/generated"] == sum(sizes) == BATCH * GROUP
        pairs = sum(len(group["rewards"]) for group in groups if len(group["rewards"]) > 1)
        mixed = any(len(set(group["rewards"])) > 1 for group in groups)
        assert row["update/rollouts"] == pairs > 0 and (row["actor/grad_norm"] > 0) == mixed
        prompts = [pool[group["prompt"]] for group in groups]
        said = drive(learner.predict(prompts, BATCH, pool, Progress(step)), None)
        divided = Knapsack(batch=BATCH, group=GROUP, most=9).allocate(said.candidates)
        assert sizes == divided.tolist(), f"step {step}: by the rewards before it"
        varied, taught = varied or len(set(sizes)) > 1, taught or mixed
        outcomes = [
            Group(prompt, tuple(group["rewards"]), failed=group["failed"])
            for prompt, group in zip(prompts, groups, strict=True)
        ]
        learner.learn(said, outcomes, pool, Progress(step))
    assert varied and taught
    shown = ("step", "prompt", "score", "v_hat")
    first, second = (
        [[row.get(name) for name in shown] for row in run_folder.read_log(folder, "judgments")]
        for folder in (whole, resumed)
    )
    assert first == second, "which rollouts fail is up to the reward, so outcomes may differ"


def test_a_recipe_on_verl_rolls_out_several_times_a_step(model, tmp_path):
    """`metis train`, one worker, static micro-batches, a curriculum that screens and judges; the
    reward is a user's own."""
    recipe = tmp_path / "recipe.toml"
    own = os.path.relpath(HERE / "even_reward.py", tmp_path / "first")
    problems = [{"problem": f"What is {i} + {i % 7}?", "index": i} for i in range(43)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in problems))
    extra = [
        *(word for word in cpu_overrides(1) if not word.startswith("reward.custom")),
        "actor_rollout_ref.actor.use_dynamic_bsz=False",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2",
        "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=False",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
        "critic.enable=True",
        f"critic.model.path={model}",
        "critic.model.use_remove_padding=False",
        "critic.model.enable_gradient_checkpointing=False",
        "+critic.model.override_config.attn_implementation=eager",
        "critic.strategy=fsdp2",
        "critic.optim.lr=1e-3",
        "critic.ppo_micro_batch_size_per_gpu=2",
        "critic.forward_micro_batch_size_per_gpu=2",
        "critic.fsdp.model_dtype=fp32",
        "+critic.fsdp.mixed_precision={param_dtype:fp32,reduce_dtype:fp32}",
    ]
    recipe.write_text(f"""
        steps = 3
        batch = 2
        group = 4
        evaluate = 3
        loggers = "tensorboard"
        loggers_every = 1
        checkpoints = {{ every = 2 }}
        curriculum = {{ name = "opening:Asking", multiplier = 2, rounds = 12 }}
        [task]
        name = "file"
        path = "../sums.jsonl"
        answer = ""
        heldout = 3
        instruction = ""
        reward = "{own}:compute_score"
        rewards = "binary"
        [engine]
        name = "local"
        model = "{model}"
        max_tokens = 8
        learning_rate = 0.1
        minibatch = 1
    """)
    out = tmp_path / "run"
    words = [f"engine.overrides={extra}", "engine.generation=transformers", "engine.max_prompt=64"]
    words += ["engine.context=1024", "engine.tokens=2048"]
    command = ["-m", "metis.cli", "train", str(recipe), "engine=verl", *words, "--out", str(out)]
    finish(start(command, tmp_path / "first"), tmp_path / "first")
    rows = run_folder.read_log(out, "metrics")
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    assert "eval/accuracy" in rows[0] and "eval/accuracy" in rows[3]
    assert any(row["select/rounds"] > 1 for row in rows[1:])
    assert rows[1]["rollout/generated"] > rows[1]["rollout/trained"]
    for row in (rows[1], rows[3]):
        assert row["judge/replies"] == row["update/judgments"] == row["batch/groups"] == 2
        assert row["update/rollouts"] == row["rollout/trained"]
        assert row["actor/grad_norm"] > 0
        assert row["select/value_moved"] > 0
        assert row["select/value_loss"] == pytest.approx(row["select/value_error"], rel=1e-4)
    assert rows[3]["select/value_loss"] < rows[1]["select/value_loss"]
    assert rows[3]["select/head_0"] < rows[1]["select/head_0"], "a head on the policy's states"
    assert rows[3]["select/head_1"] > 0
    learned = {"learner-0.pt", "learner-1.pt"}
    assert learned <= {path.name for path in (out / "verl" / "global_step_3").iterdir()}
    assert rows[2]["batch/groups"] == 0 and "actor/grad_norm" not in rows[2]
    for row in rows:
        assert [name for name in unexplained("metrics", row) if not OWN.fullmatch(name)] == []
    assert sum(row["rollout/failed"] for row in rows[1:]) > 0, "every fifth reward fails"
    assert 0 < rows[1]["reward/acc"] < 1
    (first, *_) = run_folder.read_log(out, "rollouts")
    assert len(first["reported"]) == len(first["rewards"])
    assert first["reported"][0].keys() == {"acc"}
    assert_what_failed_is_kept(out, rows)
    assert (out / "verl" / "global_step_3" / "metis.state").exists()
    assert (out / "verl" / "global_step_3" / "critic").exists()
    shown = EventAccumulator(str(out / "tensorboard")).Reload()
    assert [event.step for event in shown.Scalars("metis/total/rollout_generated")] == [1, 2, 3]
    assert {"timing_s/gen", "metis/eval/accuracy"} <= set(shown.Tags()["scalars"])
    assert [event.step for event in shown.Tensors("answers")] == [1, 3], "what is trained on"


def assert_what_failed_is_kept(run, metrics):
    """Answers whose reward raised, in training and in validation, with the reason."""
    lost = [row for group in members(run, "train") for row in group.rows if row["failure"]]
    assert len(lost) == sum(row.get("rollout/failed", 0) for row in metrics)
    tested = [(group.head, row) for group in members(run, "eval") for row in group.rows]
    assert len(tested) == 2 * 3 and all(head["messages"] for head, _ in tested)
    unscored = [row for _, row in tested if row["failure"]]
    assert len(unscored) == sum(row.get("eval/failed", 0) for row in metrics)
    for row in (*lost, *unscored):
        assert row["messages"] and row["tokens"] and row["reward"] is None
        assert "this answer cannot be scored (" in row["failure"]
    notices = [row["text"] for row in run_folder.read_log(run, "notices")]
    assert sum("this answer cannot be scored" in text for text in notices) == 1
