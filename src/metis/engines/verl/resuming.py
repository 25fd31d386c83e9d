"""What a run on verl goes on from, and what makes it the same run."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verl.utils.checkpoint.checkpoint_manager import find_latest_ckpt_path

from metis import state
from metis.errors import MetisError

STATE = "metis.state"
"""The curriculum's file in a checkpoint of verl."""


def checkpoint(trainer: Any) -> Path | None:
    """The folder that verl goes on from, by its settings."""
    if trainer.resume_mode == "disable":
        return None
    found = trainer.resume_from_path
    if trainer.resume_mode == "auto":
        found = find_latest_ckpt_path(os.path.abspath(trainer.default_local_dir))
    return Path(found).absolute() if found else None


def step_of(folder: Path | None) -> int:
    return int(folder.name.removeprefix("global_step_")) if folder else 0


def load(folder: Path) -> dict[str, Any]:
    """The curriculum's state in a checkpoint."""
    path = folder / STATE
    if not path.exists():
        raise MetisError(
            f"{str(path)!r} is missing: the checkpoint is of another trainer; train on with it, or "
            "start with trainer.resume_mode=disable"
        )
    return state.load(path)


def described(config: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the folder says of a run that was not started by `metis train`."""
    rollout, data = config.actor_rollout_ref.rollout, config.data
    actor = config.actor_rollout_ref.actor
    engine = {
        "name": "verl",
        "model": config.actor_rollout_ref.model.path,
        "generation": rollout.name,
        "max_tokens": data.max_response_length,
        "temperature": rollout.temperature,
        "top_p": rollout.top_p,
        "learning_rate": actor.optim.lr,
        "minibatch": actor.ppo_mini_batch_size,
    }
    known = {key: value for key, value in settings.items() if key != "run"}
    return {"engine": engine, "batch": data.train_batch_size, "group": rollout.n, **known}
