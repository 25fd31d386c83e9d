"""Checks of verl's configuration: settings that do not work with a curriculum, and why.

`check_command` makes them before anything starts, with verl's own validation, which otherwise only
runs in its processes, after Ray has started. Trainer and workers repeat those that need the model.
"""

import contextlib
import io
import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from torch.nn import Linear, Sequential
from transformers import AutoConfig, AutoTokenizer
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config
from verl.utils.tracking import Tracking

from metis.core import Score
from metis.core.needs import Needs
from metis.core.predictors import Predictor, ValueModel, has_own_backbone
from metis.data import parquet
from metis.engines.tokens.choices import ChoiceTree
from metis.engines.verl import checkpoints
from metis.errors import MetisError, require
from metis.run import loggers
from metis.run.recording import KEPT
from metis.settings.keys import FORMERLY
from metis.tasks.code import libraries, records
from metis.tasks.code.pool import LIBRARIES

NO_CRITIC = (
    "critic.enable = None: this curriculum trains a value model, which is verl's critic here; set "
    "critic.enable=True, critic.model.path and critic.optim.lr"
)

ESTIMATORS = ("grpo", "rloo")
LOG_PROB_BATCHES = ("log_prob_use_dynamic_bsz", "log_prob_micro_batch_size_per_gpu")
KEYS = (
    *("seed", "rewards", "tokens", "processed", "seconds"),
    *("best", "transcripts", "transcripts_gb", "loggers_every", "run", "curriculum"),
)

CHECKS: dict[str, tuple[tuple[Any, ...], str]] = {
    "trainer.use_v1": ((True,), "verl's older trainers would train without a curriculum"),
    "algorithm.filter_groups.enable": (
        (False, None),
        "the curriculum filters groups: choose one that does (metis curricula)",
    ),
    "trainer.v1.sampler.sync_refill_failed_groups": (
        (False, None),
        "a failed group would be replaced by prompts that the curriculum did not select",
    ),
    "trainer.v1.sampler.custom_sampler.path": (
        (None,),
        "the plan decides what a step trains on",
    ),
    "reward.reward_model.enable": (
        (False, None),
        "rewards are needed while a plan runs; use a reward function",
    ),
    "distillation.enabled": ((False, None), "a teacher beside a curriculum is not supported"),
    "actor_rollout_ref.hybrid_engine": (
        (True,),
        "a curriculum judges with the actor's current weights, which only colocated rollout "
        "servers have in time",
    ),
    "actor_rollout_ref.actor.strategy": (
        ("fsdp", "fsdp2"),
        "the judge's rows were only tested with FSDP",
    ),
    "actor_rollout_ref.actor.router_replay.mode": (
        ("disabled", None),
        "rows do not carry the routed experts of the rollouts",
    ),
    "actor_rollout_ref.actor.shuffle": (
        (False,),
        "each judgment stays in the mini-batch of its prompt",
    ),
    "actor_rollout_ref.rollout.calculate_log_probs": (
        (True,),
        "trajectories need their sampling log-probabilities",
    ),
    "actor_rollout_ref.actor.checkpoint.async_save": (
        (False, None),
        "a checkpoint is copied as the best one right after its validation",
    ),
    "skip.rollout_tq.enable": ((False, None), "rollouts are requested by the plan"),
}
"""Required settings of verl: key, allowed values, reason."""


def check_config(config: Any) -> None:
    """Refuse incompatible settings, before models are loaded."""
    mode = config.trainer.v1.trainer_mode
    if mode != "metis":
        raise MetisError(
            f"trainer.v1.trainer_mode = {mode!r}: a curriculum judges with the current weights, "
            "which an asynchronous trainer does not wait for; use metis"
        )
    section = OmegaConf.select(config, "trainer.v1.metis")
    if section is None:
        raise MetisError(
            "trainer.v1.metis is missing: start verl with --config-path "
            "pkg://metis.engines.verl.config --config-name metis_trainer"
        )
    _check_section(section)
    estimator = str(config.algorithm.adv_estimator)
    if estimator not in ESTIMATORS:
        raise MetisError(
            f"algorithm.adv_estimator = {estimator!r}: use one of {', '.join(ESTIMATORS)}, with "
            "group-relative advantages"
        )
    for key, (allowed, reason) in CHECKS.items():
        value = OmegaConf.select(config, key)
        if value not in allowed:
            raise MetisError(f"{key} = {value!r}: must be {allowed[0]!r}, since {reason}")
    _check_loggers(config.trainer.logger)
    _check_micro_batches(config)
    _check_loss(config.actor_rollout_ref.actor)
    _check_adapters(config.actor_rollout_ref)
    rollout = config.actor_rollout_ref.rollout
    if rollout.temperature != 1.0 and rollout.logprobs_mode == "raw_logprobs":
        raise MetisError(
            f"actor_rollout_ref.rollout.logprobs_mode = 'raw_logprobs': with temperature = "
            f"{rollout.temperature} use processed_logprobs: raw ones are not at the sampling "
            "temperature"
        )


def _check_loggers(logger: Any) -> None:
    """Check the loggers now: verl opens them last."""
    key, backends = "trainer.logger", Tracking.supported_backend
    for name in [logger] if isinstance(logger, str) else logger or ():
        require(name in backends, key, name, f"use some of {', '.join(backends)}")
        if name in loggers.LOGGERS:
            loggers.check_loggers([name], key)


def _check_micro_batches(config: Any) -> None:
    """Refuse mixed dynamic and static micro-batching: rows are ordered once for all passes."""
    parts = {
        "actor_rollout_ref.actor": ("use_dynamic_bsz", "ppo_micro_batch_size_per_gpu"),
        "actor_rollout_ref.rollout": LOG_PROB_BATCHES,
    }
    if need_reference_policy(config):
        parts["actor_rollout_ref.ref"] = LOG_PROB_BATCHES
    dynamic = config.actor_rollout_ref.actor.use_dynamic_bsz
    for section, (by_tokens, size) in parts.items():
        settings = OmegaConf.select(config, section)
        if settings[by_tokens] != dynamic:
            raise MetisError(
                f"{section}.{by_tokens} = {settings[by_tokens]}, and "
                f"actor_rollout_ref.actor.use_dynamic_bsz = {dynamic}: mixed dynamic and static "
                "micro-batching is not supported; set both to the same"
            )
        if not dynamic and not settings[size]:
            raise MetisError(
                f"{section}.{size} = {settings[size]}: set the rows per micro-batch, or "
                "actor_rollout_ref.actor.use_dynamic_bsz=True, which batches by tokens"
            )


def _check_loss(actor: Any) -> None:
    """Refuse a policy loss whose denominators would include the judge's rows."""
    if actor.loss_agg_mode == "seq-mean-token-sum-norm" and actor.loss_scale_factor is None:
        raise MetisError(
            "actor_rollout_ref.actor.loss_scale_factor = None: set it, since verl would divide by "
            "the padded width of a batch, which includes the judge's rows"
        )
    if actor.policy_loss.loss_mode == "geo_mean":
        raise MetisError(
            "actor_rollout_ref.actor.policy_loss.loss_mode = 'geo_mean': verl's mean over all rows "
            "of a micro-batch would include the judge's; use another"
        )


def _check_adapters(settings: Any) -> None:
    """Refuse LoRA with FSDP1 and a peft version that finds no adapters in it to sync."""
    rank, strategy = settings.model.lora_rank, settings.actor.strategy
    as_adapters = rank > 0 and not settings.model.lora.get("merge", False)
    if as_adapters and strategy == "fsdp" and _loses_adapters():
        raise MetisError(
            f"actor_rollout_ref.actor.strategy = {strategy!r}: with lora_rank = {rank} and peft "
            f"{version('peft')} verl finds no adapters to sync; set "
            "actor_rollout_ref.actor.strategy=fsdp2, or install 'peft<0.21'"
        )


def _loses_adapters() -> bool:
    """True for peft from 0.21 on: it selects adapters by module names, which FSDP1 changes."""
    from peft import LoraConfig, get_peft_model, get_peft_model_state_dict

    model: Any = get_peft_model(Sequential(Linear(1, 1)), LoraConfig(target_modules=["0"]))
    weights = model.state_dict()
    wrapped = OrderedDict(_fsdp_wrapped_module=model.base_model.model)
    model.base_model.model = Sequential(wrapped)
    return not get_peft_model_state_dict(model, weights)


def _check_section(section: Any) -> None:
    """Validate the section trainer.v1.metis."""
    for key in section:
        remedy = FORMERLY.get(key, f"the keys are {KEYS}")
        require(key in KEYS, f"trainer.v1.metis.{key}", section[key], remedy)
    for key in ("seed", "tokens", "processed", "seconds", "transcripts_gb"):
        value = section[key]
        number = isinstance(value, int | float) and value >= 0
        require(number, f"trainer.v1.metis.{key}", value, "use a number, 0 or more")
    every = section["loggers_every"]
    whole = isinstance(every, int) and every >= 0
    require(whole, "trainer.v1.metis.loggers_every", every, "use a whole number, 0 or more")
    known = {"rewards": ("binary", "continuous"), "best": (True, False), "transcripts": KEPT}
    for key, options in known.items():
        require(section[key] in options, f"trainer.v1.metis.{key}", section[key], f"use {options}")


def check_needs(config: Any, needs: Needs) -> None:
    """Refuse a curriculum whose requests these settings of verl cannot answer."""
    if needs.judges:
        require_temperature(config.actor_rollout_ref.rollout)
        require_judge_temperature(needs.sampling.temperature if needs.sampling else 1.0)
    if Score in needs.requests:
        require_logits(config.actor_rollout_ref)
    if needs.model is not None and has_own_backbone(needs.model):
        check_value_model(needs.model, config)


def check_value_model(model: Predictor, config: Any) -> ValueModel:
    """Check that verl's critic matches this separate value model."""
    assert isinstance(model, ValueModel) and has_own_backbone(model)
    if not need_critic(config):
        raise MetisError(NO_CRITIC)
    rate, key = float(config.critic.optim.lr), "critic.optim.lr"
    require(
        math.isclose(rate, model.learning_rate),
        key,
        rate,
        f"the curriculum asks for {model.learning_rate}; set {key} to that",
    )
    if not critics_load():
        raise MetisError(
            "critic.enable = True: verl's critic needs flash-attn, which is not installed; "
            "pip install flash-attn --no-build-isolation, or set curriculum.backbone=policy, which "
            "needs no critic"
        )
    return model


def critics_load() -> bool:
    """True if verl can load a critic, which always uses flash-attn."""
    return find_spec("flash_attn") is not None


def require_temperature(rollout: Any) -> None:
    if rollout.temperature != 1.0:
        raise MetisError(
            f"actor_rollout_ref.rollout.temperature = {rollout.temperature}: judgments are trained "
            "at the temperature of the rollouts, so a curriculum with a judge needs 1.0"
        )


def require_judge_temperature(temperature: float) -> None:
    """Refuse another temperature than 1: verl's update has one for rollouts and judgments."""
    require(
        temperature == 1,
        "curriculum.judge.temperature",
        temperature,
        "on verl judgments are trained at the temperature of the rollouts, which is 1: set it to "
        "1, or use engine=local",
    )


def require_logits(settings: Any) -> None:
    """Refuse settings without full logits: scored judgments have several targets per position."""
    for key, value in (
        ("model.use_fused_kernels", settings.model.get("use_fused_kernels", False)),
        ("actor.fsdp_config.pad_to_length", settings.actor.fsdp_config.get("pad_to_length", False)),
    ):
        require(
            not value,
            f"actor_rollout_ref.{key}",
            value,
            "verl then has no logits per position, which the scored judge is trained on: set it to "
            "False, or use curriculum.judge=reason or readout",
        )


CODE_REWARD = "score_code"
BIGCODEBENCH = "metis/bigcodebench"
"""The only benchmark whose programs need more than the standard library."""
LIBRARY_COLUMNS = ("data_source", "reward_model.ground_truth")


def check_libraries(config: Any) -> None:
    """Refuse validation programs that the sandbox cannot run, which would count as wrong."""
    if config.reward.custom_reward_function.name != CODE_REWARD:
        return
    files = config.data.val_files
    needed: set[str] = set()
    for file in [files] if isinstance(files, str) else files:
        for source, truth in parquet.values(Path(file), LIBRARY_COLUMNS):
            if source == BIGCODEBENCH:
                needed.update(records.loads(truth).get("libraries", ()))
    if lacking := libraries.missing(needed):
        raise MetisError(
            f"data.val_files: programs of BigCodeBench need {', '.join(sorted(lacking))}, which "
            f"the sandbox lacks; name folders of packages with {LIBRARIES}, or leave it out"
        )


LAYERS_THAT_RESET = {"full_attention", "sliding_attention", "chunked_attention"}
"""Layer types that reset at position 0; recurrent ones carry state across packed sequences."""
PACKING_REMEDY = (
    "the judge's choices have several tokens, which are trained as packed sequences; "
    "use curriculum.judge.scale=passes"
)


def check_choices_on_disk(config: Any, needs: Needs) -> None:
    """Check the judge's choices before a start, if the model is on this disk."""
    model = config.actor_rollout_ref.model
    if not needs.choices:
        return
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            model.path, **_trust(model), local_files_only=True
        )
    except (OSError, ValueError):
        return
    check_choices(config, needs, tokenizer, model.path)


def check_choices(config: Any, needs: Needs, tokenizer: Any, folder: str) -> None:
    """Refuse settings or models with which the judge's choices cannot be trained."""
    replies = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in needs.choices]
    if len(ChoiceTree.of(replies).sequences) > 1:
        require_packing(config.actor_rollout_ref.model, folder)


def require_packing(model: Any, folder: str) -> None:
    """Require sequence packing (remove padding) and attention layers that reset at position 0."""
    key, packed = "actor_rollout_ref.model.use_remove_padding", model.use_remove_padding
    require(packed, key, packed, f"{PACKING_REMEDY}, or set it to True")
    model_config = AutoConfig.from_pretrained(folder, **_trust(model))
    kinds = set(getattr(model_config.get_text_config(), "layer_types", None) or ())
    recurrent = sorted(kinds - LAYERS_THAT_RESET)
    require(
        not recurrent, "actor_rollout_ref.model.path", model.path, f"{recurrent}: {PACKING_REMEDY}"
    )


def _trust(model: Any) -> dict[str, Any]:
    return {"trust_remote_code": model.get("trust_remote_code", False)}


def check_command(words: Sequence[str], needs: Needs) -> None:
    """Refuse settings that verl or our trainer would refuse at start."""
    with _refused("does not take these settings"):
        with initialize_config_module("metis.engines.verl.config", version_base=None):
            config = compose("metis_trainer", list(words))
        OmegaConf.resolve(config)
    check_config(config)
    check_needs(config, needs)
    check_choices_on_disk(config, needs)
    checkpoints.check_resuming(config.trainer)
    with _refused("refuses this configuration"), contextlib.redirect_stdout(io.StringIO()):
        validate_config(config, need_reference_policy(config), need_critic(config))
        omega_conf_to_dataclass(config.actor_rollout_ref.rollout)


@contextlib.contextmanager
def _refused(how: str) -> Iterator[None]:
    """Turn any error of Hydra or verl into a MetisError."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise MetisError(f"engine.overrides: verl {how}: {reason}") from None
