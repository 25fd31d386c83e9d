"""Dotted keys of settings: all known ones, and suggestions for unknown ones."""

import dataclasses
import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_origin, get_type_hints

from metis.core.dotted import leaves
from metis.curricula import CURRICULA
from metis.curricula.judges import JUDGES
from metis.curricula.registry import judge_of
from metis.errors import MetisError
from metis.tasks.registry import TASKS

MANY = 30
"""Longest list of names in an error message."""

JUDGE = "curriculum.judge"
FLOOR = "curriculum.floors"
FILTER = "curriculum.filter"

SECTIONS = ("engine", "task", "curriculum", JUDGE, FILTER)
"""Sections that may be written as only a name."""

SHORT = {"filter": FILTER}
"""Short names of sections among key=value settings."""

SHARED = ("curriculum.batch", "curriculum.group")
"""Settings of every curriculum that are set for the run, not in its section."""

FORMERLY = {
    "sinks": "it is loggers",
    "answers": "it is transcripts: all, a sample of one per group, or none",
    f"{JUDGE}.mode": f"choose the judge by {JUDGE}=direct, reason or readout",
    "curriculum.examples": f"it is {JUDGE}.examples, of direct and reason",
    "curriculum.ema": f"it is {JUDGE}.ema, of reason",
    "curriculum.failures": f"it is {JUDGE}.failures, of reason",
    "curriculum.replay": f"it is {JUDGE}.replay, of direct",
    "curriculum.window": f"it is {JUDGE}.window",
    "curriculum.regression": f"it is {JUDGE}.regression",
    "curriculum.depths": f"it is {JUDGE}.layer: one number",
    "curriculum.preference.regression": f"it is {JUDGE}.regression, of readout",
    "curriculum.preference.window": f"it is {JUDGE}.window, of readout",
    "curriculum.preference.depths": f"it is {JUDGE}.layer, of readout: one number",
    **dict.fromkeys(
        [f"curriculum.preference.{name}" for name in ("readout", "mix", "harder")],
        f"it is gone: a readout is a judge of its own ({JUDGE}=readout)",
    ),
    **dict.fromkeys(
        [
            *(f"{JUDGE}.{name}" for name in ("layout", "loss", "reward", "offsets", "baseline")),
            *(f"{JUDGE}.{name}" for name in ("target", "aggregate", "ratio")),
            *(f"curriculum.{name}" for name in ("exemplars", "memory", "anchor", "order")),
            *(f"curriculum.{name}" for name in ("ties", "warmup", "guard")),
        ],
        "it is gone: no run needed another value",
    ),
}
"""Settings of older versions, each with its replacement."""

INSTEAD = {
    "task.heldout_path": "; benchmarks=test.jsonl tests on another file, task.heldout on some "
    "problems of this one"
}
"""Alternatives to a setting that a task does not have."""
SETTINGS = {
    "engine.model": ("model_name_or_path",),
    "engine.learning_rate": ("lr",),
    "engine.max_tokens": ("max_completion_length", "max_response_length", "max_new_tokens"),
    "engine.max_prompt": ("max_prompt_length",),
    "engine.kl": ("beta", "kl_coef", "kl_loss_coef"),
    "engine.clip_low": ("epsilon", "clip_ratio", "clip_ratio_low"),
    "engine.clip_high": ("epsilon_high", "clip_ratio_high"),
    "engine.ratio": ("importance_sampling_level", "loss_mode"),
    "engine.std_division": ("scale_rewards", "norm_adv_by_std_in_grpo"),
    "engine.gradient_clip": ("max_grad_norm", "grad_clip"),
    "engine.minibatch": ("ppo_mini_batch_size",),
    "engine.checkpointing": ("gradient_checkpointing", "enable_gradient_checkpointing"),
    "engine.lora": ("lora_rank", "lora_r"),
    "engine.generation": ("use_vllm",),
    "engine.vllm_memory": ("gpu_memory_utilization", "vllm_gpu_memory_utilization"),
    "batch": ("train_batch_size", "batch_size", "per_device_train_batch_size"),
    "group": ("num_generations", "rollout_n", "n"),
    "steps": ("max_steps", "total_training_steps"),
    "evaluate": ("eval_steps", "test_freq"),
    "checkpoints.every": ("save_steps", "save_freq"),
    "checkpoints.keep": ("save_total_limit", "max_actor_ckpt_to_keep"),
    "loggers": ("report_to", "logger"),
}
"""Settings, with their names in other trainers (TRL, verl)."""

NAMES = {
    "curriculum": {
        **dict.fromkeys(("grpo", "none", "random", "baseline"), "curriculum=uniform is GRPO"),
        "gspo": "engine.ratio=sequence is GSPO's, under any curriculum",
    },
    "engine": {
        "vllm": "engine.generation=vllm, on the local engine",
        **dict.fromkeys(("trl", "transformers", "hf"), "engine=local trains with transformers"),
    },
}
"""Names from other trainers for a section, and what to write instead."""


def in_full(key: str) -> str:
    """A key without its section's short name: `curriculum.filter.rounds` for `filter.rounds`."""
    section, dot, rest = key.partition(".")
    return f"{SHORT.get(section, section)}{dot}{rest}"


def dotted_names(kind: type[Any], prefix: str) -> Iterator[str]:
    """Dotted names of all settings of a dataclass, including its sections."""
    hints = get_type_hints(kind)
    for item in dataclasses.fields(kind):
        if not item.init:
            continue
        if dataclasses.is_dataclass(hints[item.name]):
            yield from dotted_names(hints[item.name], f"{prefix}{item.name}.")
        else:
            yield prefix + item.name


def of_mappings(kind: type[Any], prefix: str) -> list[str]:
    """Dotted names of a dataclass's settings that are mappings, with arbitrary keys."""
    hints = get_type_hints(kind)
    return [prefix + name for name in hints if get_origin(hints[name]) in (dict, Mapping)]


def require_known(
    given: Mapping[str, Any],
    keys: Sequence[str],
    named: Mapping[str, str],
    mappings: Sequence[str] = (),
) -> None:
    """Refuse an unknown key; `named` are the curriculum and the task in use."""
    written = {key: value for key, value in given.items() if key not in SECTIONS or value}
    for key, _ in leaves(written):
        inside = any(key.startswith(f"{name}.") for name in mappings)
        if key not in keys and not inside:
            raise MetisError(f"unknown key {key!r}: {_remedy(key, named, keys)}")


def _remedy(key: str, named: Mapping[str, str], keys: Sequence[str]) -> str:
    """A remedy: the curriculum or task that has the setting, else the nearest known key."""
    if key in FORMERLY:
        return FORMERLY[key]
    section = key.partition(".")[0]
    tasks = {name: task.settings for name, task in TASKS.items()}
    owned: Mapping[str, Mapping[str, type[Any]]]
    owned = {JUDGE: JUDGES, "curriculum": CURRICULA, "task": tasks}
    within = next((name for name in owned if key.startswith(f"{name}.") and name in named), section)
    kinds = owned.get(within, {})
    owners = [name for name, kind in kinds.items() if key in dotted_names(kind, f"{within}.")]
    if key.startswith(f"{JUDGE}.") and JUDGE not in named:
        owners = [name for name, kind in CURRICULA.items() if judge_of(kind) is not None]
    if owners and key not in SHARED:
        have = "has" if len(owners) == 1 else "have"
        hint = INSTEAD.get(key, "")
        return f"{named[within]} has no such setting, {', '.join(owners)} {have}{hint}"
    sections = sorted({part.split(".")[0] for part in keys if "." in part})
    if key in sections:
        return f"{key!r} is a section, with {', '.join(k for k in keys if k.startswith(key))}"
    if other := foreign_setting(key, list(keys)):
        return f"that is {other!r} here"
    same_leaf = [k for k in keys if k.rpartition(".")[2] == key.rpartition(".")[2]]
    if not same_leaf and section != key and section in sections:
        return _inside(key, section, keys)
    near = same_leaf or difflib.get_close_matches(key, [*sections, *keys], n=1, cutoff=0.75)
    return f"did you mean {near[0]!r}?" if near else suggestion(key, keys)


def _inside(key: str, section: str, keys: Sequence[str]) -> str:
    """The nearest key of a section; else all of its keys."""
    names = [k.removeprefix(f"{section}.") for k in keys if k.startswith(f"{section}.")]
    near = difflib.get_close_matches(key.removeprefix(f"{section}."), names, n=1)
    if near:
        return f"did you mean '{section}.{near[0]}'?"
    return f"{section} has {', '.join(names)}"


def suggestion(word: str, words: Sequence[str]) -> str:
    """The nearest known word, or all of them."""
    nearest = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    if nearest:
        return f"did you mean {nearest[0]!r}?"
    if len(words) > MANY:
        return "`metis train --dry-run` shows what is known, docs/settings.md says what it means"
    return f"known are {', '.join(words)}"


def foreign_setting(key: str, known: list[str]) -> str | None:
    """The known setting that another trainer names like the last part of a key."""
    last = key.rpartition(".")[2]
    return next((s for s, words in SETTINGS.items() if last in words and s in known), None)


def foreign_name(section: str, word: str) -> str | None:
    """The replacement for another trainer's name for a section."""
    return NAMES.get(section, {}).get(word.lower())
