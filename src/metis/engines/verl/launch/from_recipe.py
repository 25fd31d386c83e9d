"""Translates a recipe into verl's settings and environment variables."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from metis.errors import require
from metis.run import loggers
from metis.tasks.base import takes_turns

MODULE = "metis.engines.verl.trainer"
AGENT_LOOP = "metis_episodes"
"""The name of the agent loop for multi-turn episodes."""
REWARD_MANAGER = "metis"
"""The name of the reward manager."""
REWARD_WORKERS = 8
"""Reward workers per node."""
OWN = "METIS_"
"""Prefix of METIS's environment variables."""
ENDLESS = 1_000_000
"""A number of steps or epochs that is never reached."""


def overrides(config: Any, out: Path, model: str) -> list[str]:
    """verl's settings (Hydra overrides) for a recipe."""
    return [
        *_written("data", _data(config, out)),
        *_written("algorithm", {"norm_adv_by_std_in_grpo": config.engine.std_division}),
        *_written("actor_rollout_ref.model", _weights(config, model)),
        *_written("actor_rollout_ref.actor", _actor(config)),
        *_written("actor_rollout_ref.rollout", _rollout(config, model)),
        *_written("reward", {"num_workers": REWARD_WORKERS * config.engine.nodes}),
        *_written("reward.custom_reward_function", _reward(out)),
        *_written("trainer", _trainer(config, out)),
        *_written("ray_kwargs.ray_init", _ray(config)),
        *_written("hydra.run", {"dir": str(out / "hydra")}),
        *attention(config.engine.overrides),
        *config.engine.overrides,
    ]


def _data(config: Any, out: Path) -> dict[str, Any]:
    return {
        "train_files": str(out / "data" / "train.parquet"),
        "val_files": str(out / "data" / "heldout.parquet"),
        "train_batch_size": config.training.batch,
        "max_prompt_length": config.engine.max_prompt,
        "max_response_length": config.engine.longest,
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
    if engine.lora:
        values["strategy"] = "fsdp2"  # with recent peft, FSDP1 syncs no adapters
    else:  # with LoRA, verl's hf_model cannot be loaded by transformers
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
    if takes_turns(config.task):
        values["agent.default_agent_loop"] = AGENT_LOOP
    return values


def _context(engine: Any, model: str) -> int:
    """max_model_len of the rollout servers, limited by the model if known."""
    about = Path(model) / "config.json"
    model_config = json.loads(about.read_text("utf-8")) if about.exists() else {}
    longest = {**model_config, **model_config.get("text_config", {})}.get("max_position_embeddings")
    if longest is None:
        return int(engine.context)
    room = engine.max_prompt + engine.longest
    require(
        room <= longest,
        "engine.episode_tokens" if engine.episode_tokens else "engine.max_tokens",
        engine.longest,
        f"with max_prompt = {engine.max_prompt} it exceeds the model's context window of {longest} "
        "tokens: lower one of them",
    )
    return int(min(engine.context, longest))


def _reward(out: Path) -> dict[str, Any]:
    return {
        "path": "pkg://metis.engines.verl.reward",
        "name": "compute_score",
        "+reward_kwargs.run": str(out),
        "+reward_kwargs.place": str(Path.cwd()),
        "+reward_kwargs.share": "${reward.num_workers}",
        "+reward_kwargs.nodes": "${trainer.nnodes}",
    }


def _trainer(config: Any, out: Path) -> dict[str, Any]:
    training, engine = config.training, config.engine
    section = config.resolved["curriculum"]
    project, run = loggers.project_and_run(training.loggers, out)
    return {
        "n_gpus_per_node": engine.gpus,
        "nnodes": engine.nodes,
        "total_training_steps": training.steps or ENDLESS,
        "total_epochs": ENDLESS,
        "test_freq": training.evaluate or ENDLESS,
        "save_freq": training.checkpoints.every,
        # With 1, verl would delete the last checkpoint before the next is complete.
        "max_actor_ckpt_to_keep": max(2, training.checkpoints.keep),
        "max_critic_ckpt_to_keep": max(2, training.checkpoints.keep),
        "default_local_dir": str(out / "verl"),
        "project_name": project,
        "experiment_name": run,
        "logger": ["console", *training.loggers],
        "v1.metis.seed": training.seed,
        "v1.metis.tokens": training.tokens,
        "v1.metis.processed": training.processed,
        "v1.metis.seconds": training.seconds,
        "v1.metis.transcripts": training.transcripts,
        "v1.metis.transcripts_gb": training.transcripts_gb,
        "v1.metis.loggers_every": training.loggers_every,
        "v1.metis.rewards": config.task.rewards,
        "v1.metis.run": str(out),
        "++v1.metis.curriculum": section,
    }


def attention(given: Sequence[str]) -> list[str]:
    """Use PyTorch's SDPA where flash-attn, verl's default, is not installed."""
    key = "actor_rollout_ref.model.override_config.attn_implementation"
    settings = dict(word.lstrip("+").partition("=")[::2] for word in given)
    if find_spec("flash_attn") is not None or key in settings:
        return []
    for name, value in settings.items():
        require(
            not name.endswith("ulysses_sequence_parallel_size") or value == "1",
            "engine.overrides",
            f"{name}={value}",
            "Ulysses sequence parallelism needs flash-attn, which is not installed",
        )
    return [f"+{key}=sdpa"]


def _ray(config: Any) -> dict[str, Any]:
    """Environment variables for Ray workers, which a running cluster does not inherit."""
    own = {name: os.environ[name] for name in sorted(os.environ) if name.startswith(OWN)}
    wanted = (
        process_variables(config.engine)
        | own
        | loggers.forwarded_variables(config.training.loggers)
    )
    return {f"+runtime_env.env_vars.{name}": value for name, value in wanted.items()}


def process_variables(engine: Any) -> dict[str, str]:
    """Environment variables of verl's processes; those already set take precedence.

    cuDNN SDPA would build a plan for every packed length, and vLLM would compile top-p kernels that
    are not needed with top_p = 1.
    """
    modules = filter(None, [os.environ.get("VERL_USE_EXTERNAL_MODULES"), MODULE])
    wanted = {"TORCH_CUDNN_SDPA_DEPRIORITIZED": "1"}
    if engine.generation == "vllm" and engine.top_p == 1:
        wanted["VLLM_USE_FLASHINFER_SAMPLER"] = "0"
    environment = {name: os.environ.get(name, value) for name, value in wanted.items()}
    return {"VERL_USE_EXTERNAL_MODULES": ",".join(modules), **environment}


def _written(prefix: str, values: dict[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        name = key.lstrip("+")
        added = key.removesuffix(name)
        yield f"{added}{prefix}.{name}={_word(value)}"


_PLAIN = re.compile(r"(?!(null|true|false|nan|inf)$)[A-Za-z/][\w./-]*", re.IGNORECASE)
"""Strings that need no quotes in Hydra."""


def _word(value: Any) -> str:
    """A value in Hydra's override syntax."""
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
