"""Limits of sequence lengths: on a rollout server, and in a pass of the update."""

import math
from collections.abc import Sequence
from typing import Any

from transformers import AutoConfig
from verl.workers.rollout.utils import get_max_position_embeddings

from metis.engines.verl.workers.rows import UpdateRow
from metis.errors import MetisError


def context(config: Any, folder: str) -> int:
    """The longest sequence that the servers take and an update can train on."""
    return int(min(_on_a_server(config.actor_rollout_ref, folder), in_a_pass(config)))


def _on_a_server(settings: Any, folder: str) -> int:
    """verl's own rule: what it is told, or else all that the model in this folder reads."""
    if settings.rollout.max_model_len:
        return int(settings.rollout.max_model_len)
    trusted = settings.model.get("trust_remote_code", False)
    model_config = AutoConfig.from_pretrained(folder, trust_remote_code=trusted)
    return int(get_max_position_embeddings(model_config))


def in_a_pass(config: Any) -> float:
    """The longest row of an update; ranks that share a sequence add up."""
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    limits = [math.inf]
    if actor.use_dynamic_bsz:
        limits.append(sharing(config) * actor.ppo_max_token_len_per_gpu)
    if rollout.log_prob_use_dynamic_bsz:
        limits.append(sharing(config) * rollout.log_prob_max_token_len_per_gpu)
    return min(limits)


def sharing(config: Any) -> int:
    """Ranks that a sequence is spread over."""
    actor, key = config.actor_rollout_ref.actor, "ulysses_sequence_parallel_size"
    return int(max(actor.get(key, 1), actor.fsdp_config.get(key, 1)))


def check_lengths(rows: Sequence[UpdateRow], limit: float) -> None:
    """Refuse a row that no pass can hold."""
    longest = max(rows, key=lambda row: len(row.trajectory.tokens))
    if len(longest.trajectory.tokens) > limit:
        raise MetisError(
            "actor_rollout_ref: actor.ppo_max_token_len_per_gpu or "
            f"rollout.log_prob_max_token_len_per_gpu allows {limit:.0f} tokens, and a "
            f"{longest.kind} has {len(longest.trajectory.tokens)}: raise both"
        )
