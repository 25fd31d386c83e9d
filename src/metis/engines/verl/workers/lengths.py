"""Maximum sequence lengths, of the rollout servers and of the update."""

import math
from collections.abc import Sequence
from typing import Any

from transformers import AutoConfig
from verl.workers.rollout.utils import get_max_position_embeddings

from metis.engines.verl.workers.rows import UpdateRow
from metis.errors import MetisError


def context(config: Any, folder: str) -> int:
    """The longest sequence for both servers and update."""
    return int(min(_on_a_server(config.actor_rollout_ref, folder), in_a_pass(config)))


def _on_a_server(settings: Any, folder: str) -> int:
    """max_model_len, or else the model's context window, as in verl."""
    if settings.rollout.max_model_len:
        return int(settings.rollout.max_model_len)
    trusted = settings.model.get("trust_remote_code", False)
    model_config = AutoConfig.from_pretrained(folder, trust_remote_code=trusted)
    return int(get_max_position_embeddings(model_config))


def in_a_pass(config: Any) -> float:
    """The longest row of an update: the token limit times the sequence-parallel size."""
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    limits = [math.inf]
    if actor.use_dynamic_bsz:
        limits.append(sharing(config) * actor.ppo_max_token_len_per_gpu)
    if rollout.log_prob_use_dynamic_bsz:
        limits.append(sharing(config) * rollout.log_prob_max_token_len_per_gpu)
    return min(limits)


def sharing(config: Any) -> int:
    """The (Ulysses) sequence-parallel size."""
    actor, key = config.actor_rollout_ref.actor, "ulysses_sequence_parallel_size"
    return int(max(actor.get(key, 1), actor.fsdp_config.get(key, 1)))


def check_lengths(rows: Sequence[UpdateRow], limit: float) -> None:
    """Refuse a row that exceeds the limit."""
    longest = max(rows, key=lambda row: len(row.trajectory.tokens))
    if len(longest.trajectory.tokens) > limit:
        raise MetisError(
            "actor_rollout_ref: actor.ppo_max_token_len_per_gpu or "
            f"rollout.log_prob_max_token_len_per_gpu allows {limit:.0f} tokens, and a "
            f"{longest.kind} has {len(longest.trajectory.tokens)}: raise both"
        )
