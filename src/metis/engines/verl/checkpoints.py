"""Checkpoints of a run on verl: which are kept, and which one a start resumes from.

verl only counts the checkpoints of the current process, and leaves empty folders behind. Its marker
file names the last complete checkpoint; if that folder is missing, verl silently starts at step 0,
and it finds other problems only when models are loaded.
"""

import itertools
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metis import files
from metis.core import state
from metis.engines.verl import shards
from metis.errors import MetisError, require
from metis.run import manifest
from metis.run.budget import Account

BEST = "best"
"""The folder of the checkpoint with the best validation."""
STEP = "global_step_"
NUMBERED = re.compile(rf"{STEP}\d+")
MARKER = "latest_checkpointed_iteration.txt"
STATE = "metis.state"
"""The file with the curriculum's state in a verl checkpoint."""
PARTS = ("actor", "critic")
"""The folders of a checkpoint with a file from every rank."""
MODE, PLACE, ONLY_TESTED = "trainer.resume_mode", "trainer.resume_from_path", "trainer.val_only"
OF_A_START = (MODE, PLACE, ONLY_TESTED)
OFFLOADED = "_offload"
"""Suffix of verl's offloading settings, which may change on resume."""


def make_room(folder: Path, keep: int | None) -> None:
    """Before a checkpoint is written: delete old ones, incomplete ones, and this folder.

    `keep` remain with the new one, at least two; None or 0 keeps all. verl would overwrite the
    files of an earlier attempt in place, and `best` may hard-link them.
    """
    if last_complete(folder.parent) == step_of(folder):
        clear_marker(folder.parent)
    shutil.rmtree(folder, ignore_errors=True)
    if not keep or keep < 0:
        return
    earlier = [path for path in numbered(folder.parent) if step_of(path) < step_of(folder)]
    last = last_complete(folder.parent)
    whole = [path for path in earlier if last is None or step_of(path) <= last]
    kept = whole[-max(1, keep - 1) :]
    for path in earlier:
        if path not in kept:
            shutil.rmtree(path, ignore_errors=True)


def mark_last(folder: Path) -> None:
    """Set the marker to this checkpoint: later ones belong to an abandoned attempt."""
    if last_complete(folder.parent) != step_of(folder):
        with files.atomic(folder.parent / MARKER) as file:
            file.write(str(step_of(folder)).encode())


def is_best(name: str) -> bool:
    """True for the name of a best checkpoint, also of an abandoned attempt."""
    return re.fullmatch(rf"{BEST}(-of-step-\d+(-\d+)?)?", name) is not None


def clear_marker(folder: Path) -> None:
    """Delete the marker: all checkpoints belong to an abandoned attempt."""
    (folder / MARKER).unlink(missing_ok=True)


def numbered(folder: Path) -> list[Path]:
    """The checkpoints in a folder, by step."""
    paths = folder.glob(f"{STEP}*")
    return sorted((path for path in paths if NUMBERED.fullmatch(path.name)), key=step_of)


def step_of(folder: Path | None) -> int:
    """The step in a folder's name; 0 for None."""
    return int(folder.name.removeprefix(STEP)) if folder else 0


def last_complete(folder: Path) -> int | None:
    """The step of the last complete checkpoint, by the marker; None without one."""
    marker = folder / MARKER
    text = marker.read_text() if marker.exists() else ""
    return int(text) if text.strip().isdecimal() else None


def marked(folder: Path) -> int | None:
    """Like `last_complete`, but refuses an invalid marker."""
    marker, step = folder / MARKER, last_complete(folder)
    if step is None and marker.exists():
        raise MetisError(
            f"{marker} holds {marker.read_text()!r}, not a step: write the number of a folder "
            f"{STEP}NUMBER beside it with a complete checkpoint"
        )
    return step


def check_marked(folder: Path, gpus: int) -> None:
    """Refuse to start if the marked checkpoint cannot be resumed."""
    step = marked(folder)
    if step is None:
        return
    named = folder / f"{STEP}{step}"
    if wrong := resume_error(named, gpus):
        marker = folder / MARKER
        raise MetisError(
            f"trainer.resume_mode = 'auto': {marker} names {named.name}, which {wrong}: "
            f"{_ways_out(folder, gpus)} (which deletes the marker)"
        )


def check_given(folder: Path, gpus: int) -> None:
    """Refuse to start if the given checkpoint cannot be resumed."""
    if wrong := resume_error(folder, gpus):
        raise MetisError(
            f"trainer.resume_from_path = {str(folder)!r}: it {wrong}: "
            f"{_ways_out(folder.parent, gpus)}"
        )


def resume_error(folder: Path, gpus: int) -> str | None:
    """Why this checkpoint cannot be resumed on `gpus` GPUs, or None."""
    if not folder.is_dir():
        return "is not there"
    if not (folder / STATE).exists():
        return f"has no {STATE}, so another trainer wrote it"
    try:
        state.load_state(folder / STATE)
    except (MetisError, OSError):
        return f"has a {STATE} that is corrupted or cannot be read"
    sizes = shards.world_sizes(folder / "actor")
    if sizes and gpus not in sizes:
        written = " or ".join(map(str, sorted(sizes)))
        return (
            f"was written by {written} GPUs and needs as many (trainer.nnodes x "
            f"trainer.n_gpus_per_node is {gpus})"
        )
    lost = [f"{part}/{file}" for part in PARTS for file in shards.missing(folder / part, gpus)]
    if lost:
        return (
            f"lacks {len(lost)} of its files or has them incomplete, the first of them {lost[0]}: "
            "every GPU writes its own, which the nodes have to write to a shared file system"
        )
    return None


def _ways_out(folder: Path, gpus: int) -> str:
    """Other checkpoints that can be resumed, and the settings for that."""
    others = [path for path in _candidates(folder) if resume_error(path, gpus) is None]
    anew = "start over with trainer.resume_mode=disable"
    if not others:
        return f"restore it, or {anew}"
    names = " or ".join(path.name for path in others)
    return (
        f"resume from {names} with trainer.resume_mode=resume_path "
        f"trainer.resume_from_path={others[-1]}, or {anew}"
    )


def _candidates(folder: Path) -> list[Path]:
    """The best checkpoint and those up to the marked one; later ones may be incomplete."""
    last = last_complete(folder)
    best = [folder / BEST] if (folder / BEST).is_dir() else []
    whole = [path for path in numbered(folder) if last is None or step_of(path) <= last]
    return best + whole


def check_resuming(trainer: Any) -> None:
    """Refuse invalid resume settings, or a checkpoint that cannot be resumed."""
    key, mode, given = "trainer.resume_from_path", trainer.resume_mode, trainer.resume_from_path
    modes = ("auto", "disable", "resume_path")
    require(mode in modes, "trainer.resume_mode", mode, f"use one of {', '.join(modes)}")
    gpus = trainer.nnodes * trainer.n_gpus_per_node
    if mode == "auto":
        check_marked(Path(trainer.default_local_dir).absolute(), gpus)
    if mode != "resume_path":
        return
    there = isinstance(given, str) and Path(given).is_dir()
    require(there, key, given, "no such folder: name a checkpoint, or use resume_mode=auto")
    name = Path(given).absolute().name
    mends = f"use a folder {STEP}NUMBER that verl wrote, or {BEST!r} beside such folders"
    require(is_best(name) or NUMBERED.fullmatch(name) is not None, key, given, mends)
    check_given(Path(given).absolute(), gpus)


def prepare_resume(trainer: Any) -> None:
    """Point verl at the checkpoint to resume; `best` gets its `global_step_N` name back."""
    check_resuming(trainer)
    if trainer.resume_mode == "resume_path":
        folder = Path(trainer.resume_from_path).absolute()
        trainer.resume_from_path = str(_by_its_step(folder) if is_best(folder.name) else folder)


def _by_its_step(best: Path) -> Path:
    """The best checkpoint hard-linked under its `global_step_N` name."""
    saved = load_curriculum_state(best)
    folder = best.with_name(f"{STEP}{saved['best'][0]}")
    if not (folder / "actor").exists():
        files.link_copy(best, folder.name)
    if load_curriculum_state(folder)["elapsed"] != saved["elapsed"]:
        raise MetisError(
            f"trainer.resume_from_path = {str(best)!r}: its name {folder.name} is taken by a "
            "checkpoint of another attempt: move that one away"
        )
    return folder


def resume_folder(trainer: Any) -> Path | None:
    """The folder that verl resumes from, by its settings."""
    from verl.utils.checkpoint.checkpoint_manager import find_latest_ckpt_path

    if trainer.resume_mode == "disable":
        return None
    folder = trainer.resume_from_path
    if trainer.resume_mode == "auto":
        folder = find_latest_ckpt_path(os.path.abspath(trainer.default_local_dir))
    return Path(folder).absolute() if folder else None


def load_curriculum_state(folder: Path) -> dict[str, Any]:
    """The curriculum's state in a checkpoint."""
    path = folder / STATE
    if not path.exists():
        raise MetisError(
            f"{str(path)!r} is missing: another trainer wrote the checkpoint; resume with that "
            "one, or start with trainer.resume_mode=disable"
        )
    return state.load_state(path)


def settings_of_the_run(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run, without overrides that only apply to this start."""
    engine = resolved["engine"]
    words = [word for word in engine["overrides"] if _key(word) not in OF_A_START]
    return {**resolved, "engine": {**engine, "overrides": words}}


def same_run(before: Sequence[str], now: Sequence[str]) -> bool:
    """True if overrides are equal except for those that may change on resume."""
    return _of_the_run(before) == _of_the_run(now)


def step_at_start(overrides: Sequence[str], folder: Path) -> int:
    """The step that this start resumes from."""
    mode = _value(overrides, MODE) or "auto"
    if mode == "auto":
        return marked(folder) or 0
    place = Path(_value(overrides, PLACE) or "").absolute()
    if mode == "disable" or not place.is_dir():
        return 0
    if is_best(place.name):
        return int(state.load_state(place / STATE)["best"][0])
    return step_of(place) if NUMBERED.fullmatch(place.name) else 0


def resumes_latest(overrides: Sequence[str]) -> bool:
    """True if this start resumes training from the latest checkpoint."""
    tested = (_value(overrides, ONLY_TESTED) or "false").lower() in ("true", "yes", "on", "1")
    return (_value(overrides, MODE) or "auto") == "auto" and not tested


def reason_to_begin_anew(overrides: Sequence[str]) -> str:
    """Why an existing run starts over at step 0."""
    asked = _value(overrides, MODE) == "disable"
    return f"{MODE} is 'disable'" if asked else manifest.NO_CHECKPOINT


def _of_the_run(overrides: Sequence[str]) -> list[str]:
    keys = ((word, _key(word)) for word in overrides)
    return [word for word, key in keys if key not in OF_A_START and not key.endswith(OFFLOADED)]


def _key(word: str) -> str:
    return word.partition("=")[0].strip().lstrip("+~")


def _value(overrides: Sequence[str], key: str) -> str | None:
    """The value of an override: the last one, without quotation marks, as in Hydra."""
    values = [word.partition("=")[2] for word in overrides if _key(word) == key]
    return values[-1].strip().strip("'\"") if values else None


def set_best_aside(folder: Path, account: Account) -> str | None:
    """Rename `best` if it is not this attempt's best checkpoint; returns a message.

    An older one stays if the current step is the best: the run stopped before that was copied, and
    it is validated again.
    """
    best = folder / BEST
    own = _tested(best)
    if own is None or own == account.best or (account.improved and own[0] < account.step):
        return None
    kept = _free(best.with_name(f"{BEST}-of-step-{own[0]}"))
    best.rename(kept)
    so_far = f"step {account.best[0]}" if account.best[0] else "none yet"
    return (
        f"{best} was from step {own[0]}, but the best step of this attempt is {so_far}: renamed to "
        f"{kept.name}"
    )


def _tested(best: Path) -> tuple[int, float] | None:
    """Step and accuracy of a best checkpoint, if readable."""
    try:
        step, accuracy = state.load_state(best / STATE)["best"]
    except (MetisError, OSError, KeyError):
        return None
    return int(step), float(accuracy)


def _free(path: Path) -> Path:
    """This path, or with a number appended if it exists."""
    names = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    return next(name for name in itertools.chain([path], names) if not name.exists())
