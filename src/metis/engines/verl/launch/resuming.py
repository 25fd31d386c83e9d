"""Resuming on verl: the checkpoint to go on from, and the identity of a run."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verl.utils.checkpoint.checkpoint_manager import find_latest_ckpt_path

from metis import files
from metis.core import state
from metis.engines.verl.launch import resumable
from metis.engines.verl.launch.resumable import STATE
from metis.engines.verl.launch.retention import BEST, NUMBERED, STEP, is_best
from metis.errors import MetisError, require


def check(trainer: Any) -> None:
    """Refuse a checkpoint to go on from that is none."""
    key, mode, given = "trainer.resume_from_path", trainer.resume_mode, trainer.resume_from_path
    modes = ("auto", "disable", "resume_path")
    require(mode in modes, "trainer.resume_mode", mode, f"use one of {', '.join(modes)}")
    gpus = trainer.nnodes * trainer.n_gpus_per_node
    if mode == "auto":
        resumable.check_marked(Path(trainer.default_local_dir).absolute(), gpus)
    if mode != "resume_path":
        return
    there = isinstance(given, str) and Path(given).is_dir()
    require(there, key, given, "no such folder: name a checkpoint, or use resume_mode=auto")
    name = Path(given).absolute().name
    mends = f"use a folder {STEP}NUMBER that verl wrote, or {BEST!r} beside such folders"
    require(is_best(name) or NUMBERED.fullmatch(name) is not None, key, given, mends)
    resumable.check_given(Path(given).absolute(), gpus)


def settle(trainer: Any) -> None:
    """Name the folder to go on from as verl needs it, by its step: `best` gets that name back."""
    check(trainer)
    if trainer.resume_mode == "resume_path":
        folder = Path(trainer.resume_from_path).absolute()
        trainer.resume_from_path = str(_by_its_step(folder) if is_best(folder.name) else folder)


def _by_its_step(best: Path) -> Path:
    """The best checkpoint under the name that it was saved by, its files shared."""
    saved = load(best)
    folder = best.with_name(f"{STEP}{saved['best'][0]}")
    if not (folder / "actor").exists():
        files.keep_copy(best, folder.name)
    if load(folder)["elapsed"] != saved["elapsed"]:
        raise MetisError(
            f"trainer.resume_from_path = {str(best)!r}: {folder.name} beside it, whose name it "
            "needs, is a checkpoint of another attempt: move that away"
        )
    return folder


def checkpoint(trainer: Any) -> Path | None:
    """The folder that verl goes on from, by its settings."""
    if trainer.resume_mode == "disable":
        return None
    folder = trainer.resume_from_path
    if trainer.resume_mode == "auto":
        folder = find_latest_ckpt_path(os.path.abspath(trainer.default_local_dir))
    return Path(folder).absolute() if folder else None


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
    """The settings in the folder of a run that was not started by `metis train`."""
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
    rest = {key: value for key, value in settings.items() if key != "run"}
    return {"engine": engine, "batch": data.train_batch_size, "group": rollout.n, **rest}
