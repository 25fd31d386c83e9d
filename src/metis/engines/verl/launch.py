"""`metis train engine=verl`: a recipe as verl's own command line, printed and run.

The run folder holds the task as parquet files that verl reads, verl's checkpoints, and the logs of
every other run. Running the same command again resumes.
"""

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from metis import assets, state
from metis.account import Account
from metis.core import Prompt
from metis.curricula.judge import Judge
from metis.errors import MetisError, require
from metis.evals.validation import benchmark
from metis.identity import complete, described
from metis.pool import Pool
from metis.runlog import RunFolder
from metis.tasks.base import SingleTurn, Task
from metis.train import check_pool

MODULE = "metis.engines.verl.trainer"
MAIN = [
    *("-m", "verl.trainer.main_ppo"),
    *("--config-path", "pkg://metis.engines.verl.config", "--config-name", "metis_trainer"),
]

PATIENCE = 20.0
"""Seconds that verl has to end its workers after Ctrl-C."""
ENDLESS = 1_000_000
"""Steps or epochs that no run comes to: its budget or its end is reached before."""


def launch(config: Any, out: Path, dry_run: bool) -> int:
    """Print the command, and unless it is a dry run, run it."""
    _check(config, dry_run)
    arguments = [*MAIN, *overrides(config, out.absolute(), _model(config, dry_run))]
    for remark in _remarks(config, out, dry_run):
        print(f"metis: {remark}", file=sys.stderr)
    if dry_run:
        print(_command(arguments))
        return 0
    may_change = config.may_change if _begun(out) else tuple(config.resolved)
    with RunFolder.open(out, config.resolved, may_change, _reached(out)) as folder:
        if folder.changes:
            print(f"from here on {described(folder.changes)}", flush=True)
        if _complete(config, out):
            print(complete(out))
            return 0
        write_data(config, out / "data")
    print(_command(arguments), flush=True)
    return _run([sys.executable, *arguments], {**os.environ, **_variables()})


def _remarks(config: Any, out: Path, dry_run: bool) -> Iterator[str]:
    """What a recipe costs here, and what a printed command leaves out."""
    judge = getattr(config.curriculum, "judge", None)
    if isinstance(judge, Judge) and judge.mode == "direct":
        yield (
            "curriculum.judge.mode = 'direct' trains eleven rows for a judgment on verl, 'reason' "
            "one: docs/engines.md has the figures"
        )
    if not dry_run:
        return
    yield f"without --dry-run the data that the command reads is written to {out / 'data'} first"
    if config.engine.model in assets.WHEELS:
        yield f"{config.engine.model} stands for the folder that METIS fetches it to"
    if _attention(config.engine.overrides):
        yield "flash-attn is not installed here, so the command asks for PyTorch's own attention"


def _command(arguments: Sequence[str]) -> str:
    """The command as a person copies it, a setting on each line."""
    words = [shlex.quote(word) for word in arguments]
    variables = [f"{name}={value}" for name, value in _variables().items()]
    start = " ".join([*variables, "python", *words[: len(MAIN)]])
    return " \\\n    ".join([start, *words[len(MAIN) :]])


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Ctrl-C reaches the command too, which is given time to end its workers."""
    process = subprocess.Popen(command, env=environment)
    try:
        return process.wait()
    except KeyboardInterrupt:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=PATIENCE)
        process.kill()
        raise


def _begun(out: Path) -> bool:
    """Whether a run has come to its first step, after which its settings stay."""
    timings = out / "timings.jsonl"
    return _reached(out) > 0 or (timings.exists() and timings.stat().st_size > 0)


def _reached(out: Path) -> int:
    """The step of verl's latest checkpoint."""
    marker = out / "verl" / "latest_checkpointed_iteration.txt"
    text = marker.read_text() if marker.exists() else "0"
    if not text.strip().isdecimal():
        raise MetisError(
            f"{marker} holds {text!r}, not a step: write the number of a folder global_step_NUMBER "
            "beside it, whose checkpoint is whole"
        )
    return int(text)


def _complete(config: Any, out: Path) -> bool:
    """Whether verl's latest checkpoint is at the end of the budget."""
    step = _reached(out)
    saved = out / "verl" / f"global_step_{step}" / "metis.state"
    if not saved.exists():
        return False
    return Account.of(config.training.budget, step, state.load(saved)).fraction >= 1


def _check(config: Any, dry_run: bool) -> None:
    known = {"tensorboard", "wandb", "trackio"}
    for sink in config.training.sinks:
        require(sink in known, "sinks", sink, f"verl logs to {', '.join(sorted(known))}")
    if not isinstance(config.task.episode(config.task.training()[0]), SingleTurn):
        raise MetisError(
            "this task takes turns, which the verl engine does not play: use engine=local"
        )
    judges = isinstance(getattr(config.curriculum, "judge", None), Judge)
    require(
        not judges or config.engine.temperature == 1,
        "engine.temperature",
        config.engine.temperature,
        "judgments are trained at the temperature of the rollouts, so a curriculum that judges "
        "needs 1",
    )
    pool = Pool(config.task.training(), config.task.rewards, config.training.seed)
    check_pool(pool, config.curriculum, config.training.batch)
    needed = ["verl", "vllm"] if config.engine.generation == "vllm" else ["verl"]
    for name in needed:
        if not dry_run and find_spec(name) is None:
            raise MetisError(
                f"engine = 'verl': {name} is not installed: pip install 'metis-rft[verl]' in an "
                "environment of its own (it cannot share one with trl)"
            )


def _model(config: Any, dry_run: bool) -> str:
    return config.engine.model if dry_run else str(assets.model(config.engine.model).absolute())


def _attention(given: Sequence[str]) -> list[str]:
    """verl takes flash-attn for granted; where it is missing, PyTorch's own attention does."""
    key = "actor_rollout_ref.model.override_config.attn_implementation"
    settings = dict(word.lstrip("+").partition("=")[::2] for word in given)
    if find_spec("flash_attn") is not None or key in settings:
        return []
    for name, value in settings.items():
        require(
            not name.endswith("ulysses_sequence_parallel_size") or value == "1",
            "engine.overrides",
            f"{name}={value}",
            "verl spreads sequences over GPUs with flash-attn alone, which is not installed",
        )
    return [f"+{key}=sdpa"]


def overrides(config: Any, out: Path, model: str) -> list[str]:
    """A recipe in verl's words."""
    return [
        *_written("data", _data(config, out)),
        *_written("algorithm", {"norm_adv_by_std_in_grpo": config.engine.std_division}),
        *_written("actor_rollout_ref.model", _weights(config, model)),
        *_written("actor_rollout_ref.actor", _actor(config)),
        *_written("actor_rollout_ref.rollout", _rollout(config, model)),
        *_written("reward.custom_reward_function", _reward(out)),
        *_written("trainer", _trainer(config, out)),
        *_written("ray_kwargs.ray_init", _ray()),
        *_attention(config.engine.overrides),
        *config.engine.overrides,
    ]


def _data(config: Any, out: Path) -> dict[str, Any]:
    return {
        "train_files": str(out / "data" / "train.parquet"),
        "val_files": str(out / "data" / "heldout.parquet"),
        "train_batch_size": config.training.batch,
        "max_prompt_length": config.engine.max_prompt,
        "max_response_length": config.engine.max_tokens,
        "filter_overlong_prompts": True,
    }


def _weights(config: Any, model: str) -> dict[str, Any]:
    engine = config.engine
    values: dict[str, Any] = {"path": model, "enable_gradient_checkpointing": engine.checkpointing}
    if engine.lora:
        values |= {
            "lora_rank": engine.lora,
            "lora_alpha": 2 * engine.lora,
            "target_modules": "all-linear",
        }
    return values


def _actor(config: Any) -> dict[str, Any]:
    engine = config.engine
    values: dict[str, Any] = {
        "optim.lr": engine.learning_rate,
        "optim.weight_decay": engine.weight_decay,
        "optim.clip_grad": engine.gradient_clip,
        "ppo_mini_batch_size": engine.minibatch or config.training.batch,
        "ppo_max_token_len_per_gpu": engine.tokens,
        "clip_ratio_low": engine.clip_low,
        "clip_ratio_high": engine.clip_high,
        "checkpoint.save_contents": ["model", "optimizer", "extra"],
    }
    if not engine.lora:  # with adapters verl writes weights that transformers does not read
        values["checkpoint.save_contents"].append("hf_model")
    if engine.ratio == "sequence":
        values["policy_loss.loss_mode"] = "gspo"
    if engine.kl:
        values |= {
            "use_kl_loss": True,
            "kl_loss_coef": engine.kl,
            "kl_loss_type": "low_var_kl",
        }
    return values


def _rollout(config: Any, model: str) -> dict[str, Any]:
    engine = config.engine
    values = {
        "name": engine.generation,
        "n": config.training.group,
        "temperature": engine.temperature,
        "top_p": engine.top_p,
        "gpu_memory_utilization": engine.vllm_memory,
        "tensor_model_parallel_size": engine.tensor,
        "max_model_len": _context(engine, model),
        "log_prob_max_token_len_per_gpu": engine.tokens,
    }
    if engine.temperature != 1:
        values["logprobs_mode"] = "processed_logprobs"
    return values


def _context(engine: Any, model: str) -> int:
    """The longest sequence on a rollout server: as far as the model goes, where that is known."""
    about = Path(model) / "config.json"
    known = json.loads(about.read_text("utf-8")) if about.exists() else {}
    longest = {**known, **known.get("text_config", {})}.get("max_position_embeddings")
    if longest is None:
        return int(engine.context)
    room = engine.max_prompt + engine.max_tokens
    require(
        room <= longest,
        "engine.max_tokens",
        engine.max_tokens,
        f"with max_prompt = {engine.max_prompt} it exceeds the {longest} tokens that the model "
        "reads: lower one of them",
    )
    return int(min(engine.context, longest))


def _reward(out: Path) -> dict[str, Any]:
    return {
        "path": "pkg://metis.engines.verl.reward",
        "name": "compute_score",
        "+reward_kwargs.run": str(out),
    }


def _trainer(config: Any, out: Path) -> dict[str, Any]:
    training, engine = config.training, config.engine
    section = config.resolved["curriculum"]
    return {
        "n_gpus_per_node": engine.gpus,
        "nnodes": engine.nodes,
        "total_training_steps": training.steps or ENDLESS,
        "total_epochs": ENDLESS,
        "test_freq": training.evaluate or ENDLESS,
        "save_freq": training.checkpoints.every,
        # One alone would be deleted before verl has written all of the next.
        "max_actor_ckpt_to_keep": max(2, training.checkpoints.keep),
        "max_critic_ckpt_to_keep": max(2, training.checkpoints.keep),
        "default_local_dir": str(out / "verl"),
        "project_name": "metis",
        "experiment_name": out.name,
        "logger": ["console", *training.sinks],
        "v1.metis.seed": training.seed,
        "v1.metis.tokens": training.tokens,
        "v1.metis.seconds": training.seconds,
        "v1.metis.rewards": config.task.rewards,
        "v1.metis.run": str(out),
        "++v1.metis.curriculum": section,
    }


def _ray() -> dict[str, Any]:
    """Workers of a cluster that is already running do not have the variables of this process."""
    return {f"+runtime_env.env_vars.{name}": value for name, value in _variables().items()}


def _variables() -> dict[str, str]:
    """Ours beside those that are set. cuDNN's attention would plan anew for every packed length."""
    modules = filter(None, [os.environ.get("VERL_USE_EXTERNAL_MODULES"), MODULE])
    avoid = "TORCH_CUDNN_SDPA_DEPRIORITIZED"
    return {"VERL_USE_EXTERNAL_MODULES": ",".join(modules), avoid: os.environ.get(avoid, "1")}


def _written(prefix: str, values: dict[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        name = key.lstrip("+")
        added = key.removesuffix(name)
        yield f"{added}{prefix}.{name}={_word(value)}"


_PLAIN = re.compile(r"(?!(null|true|false|nan|inf)$)[A-Za-z/][\w./-]*", re.IGNORECASE)
"""What Hydra takes for a string without quotes."""


def _word(value: Any) -> str:
    """A value as Hydra reads it."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_word(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_word, value)) + "]"
    if value is None or isinstance(value, bool):
        return str(value).lower() if value is not None else "null"
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return repr(value)


def write_data(config: Any, folder: Path) -> None:
    """The task in verl's format: training prompts, and those to test on."""
    from pyarrow import Table, parquet

    folder.mkdir(exist_ok=True)
    task, tested = config.task, bool(config.training.benchmarks)
    for name, prompts in (("train", task.training()), ("heldout", task.heldout())):
        target = folder / f"{name}.parquet"
        draft = target.with_suffix(".draft")
        source = benchmark if tested and name == "heldout" else _one_source
        parquet.write_table(Table.from_pylist(list(rows(task, prompts, source))), draft)
        draft.replace(target)


def _one_source(prompt: str) -> str:
    return "metis"


def rows(
    task: Task, prompts: Sequence[Prompt], source: Callable[[str], str]
) -> Iterator[dict[str, Any]]:
    """verl reports of each data source for itself."""
    for i, prompt in enumerate(prompts):
        yield {
            "data_source": source(prompt.id),
            "prompt": [dict(message) for message in task.episode(prompt).chat],
            "ability": prompt.category,
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {
                "index": i,
                "id": prompt.id,
                "text": prompt.text,
                "category": prompt.category,
                "difficulty": prompt.difficulty,
            },
        }
