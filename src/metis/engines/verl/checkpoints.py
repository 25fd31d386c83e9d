"""Checkpoints of a run on verl: which stay on disk, and which one a start goes on from.

verl counts the checkpoints of one start alone, and of one that it drops it leaves the folder. Its
marker names the last that is whole; where that names a folder that is not there, verl starts at
step 0, without a word, and other faults it meets when its models are loaded.
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
from metis.errors import MetisError, require
from metis.run import manifest
from metis.run.budget import Account

BEST = "best"
"""The folder of the checkpoint that tested best, which stays."""
STEP = "global_step_"
NUMBERED = re.compile(rf"{STEP}\d+")
MARKER = "latest_checkpointed_iteration.txt"
STATE = "metis.state"
"""The curriculum's file in a checkpoint of verl."""
SHARD = re.compile(r"model_world_size_(\d+)_rank_0\.pt")
MODE, PLACE, ONLY_TESTED = "trainer.resume_mode", "trainer.resume_from_path", "trainer.val_only"
OF_A_START = (MODE, PLACE, ONLY_TESTED)
OFFLOADED = "_offload"
"""The end of the keys that keep weights or an optimizer in the memory of the machine."""


def make_room(folder: Path, keep: int | None) -> None:
    """Before a checkpoint is written to this folder: delete old ones, the remains of others that
    were not written to their end, and what is there.

    With the new one, `keep` stay, at least two; none or 0 keeps all. verl would write over the
    files of an earlier attempt at the step, which `best` may share.
    """
    if last_whole(folder.parent) == step_of(folder):
        forget(folder.parent)
    shutil.rmtree(folder, ignore_errors=True)
    if not keep or keep < 0:
        return
    earlier = [path for path in numbered(folder.parent) if step_of(path) < step_of(folder)]
    last = last_whole(folder.parent)
    whole = [path for path in earlier if last is None or step_of(path) <= last]
    kept = whole[-max(1, keep - 1) :]
    for path in earlier:
        if path not in kept:
            shutil.rmtree(path, ignore_errors=True)


def go_on_from(folder: Path) -> None:
    """Mark a checkpoint as the last, as the logs end there: later ones are of another attempt."""
    if last_whole(folder.parent) != step_of(folder):
        with files.atomic(folder.parent / MARKER) as file:
            file.write(str(step_of(folder)).encode())


def is_best(name: str) -> bool:
    """True of the best checkpoint of a run, or of an attempt of it that was abandoned."""
    return re.fullmatch(rf"{BEST}(-of-step-\d+(-\d+)?)?", name) is not None


def forget(folder: Path) -> None:
    """Mark no checkpoint in a folder as the last: all of them are of another attempt."""
    (folder / MARKER).unlink(missing_ok=True)


def numbered(folder: Path) -> list[Path]:
    """The checkpoints in a folder, by step."""
    paths = folder.glob(f"{STEP}*")
    return sorted((path for path in paths if NUMBERED.fullmatch(path.name)), key=step_of)


def step_of(folder: Path | None) -> int:
    """The step that a folder is named by; 0 without one."""
    return int(folder.name.removeprefix(STEP)) if folder else 0


def last_whole(folder: Path) -> int | None:
    """The step of the last checkpoint that is whole, where one is marked."""
    marker = folder / MARKER
    text = marker.read_text() if marker.exists() else ""
    return int(text) if text.strip().isdecimal() else None


def marked(folder: Path) -> int | None:
    """The step that a marker names, if there is one; what is no step is refused."""
    marker, step = folder / MARKER, last_whole(folder)
    if step is None and marker.exists():
        raise MetisError(
            f"{marker} holds {marker.read_text()!r}, not a step: write the number of a folder "
            f"{STEP}NUMBER beside it, whose checkpoint is whole"
        )
    return step


def check_marked(folder: Path, gpus: int) -> None:
    """Refuse a folder of checkpoints whose marker names one that this start cannot go on from."""
    step = marked(folder)
    if step is None:
        return
    named = folder / f"{STEP}{step}"
    if wrong := fault(named, gpus):
        marker = folder / MARKER
        raise MetisError(
            f"trainer.resume_mode = 'auto': {marker} names {named.name}, which {wrong}: "
            f"{_ways_out(folder, gpus)} (which deletes the marker)"
        )


def check_given(folder: Path, gpus: int) -> None:
    """Refuse a checkpoint that was named and that this start cannot go on from."""
    if wrong := fault(folder, gpus):
        raise MetisError(
            f"trainer.resume_from_path = {str(folder)!r}: it {wrong}: "
            f"{_ways_out(folder.parent, gpus)}"
        )


def fault(folder: Path, gpus: int) -> str | None:
    """A reason why so many GPUs cannot go on from a folder."""
    if not folder.is_dir():
        return "is not there"
    if not (folder / STATE).exists():
        return f"has no {STATE} and so is of another trainer"
    try:
        state.load_state(folder / STATE)
    except (MetisError, OSError):
        return f"has a {STATE} that is damaged or cannot be read"
    sizes = _sizes(folder / "actor")
    if sizes and gpus not in sizes:
        written = " or ".join(map(str, sorted(sizes)))
        return (
            f"was written by {written} GPUs and needs as many (trainer.nnodes x "
            f"trainer.n_gpus_per_node is {gpus})"
        )
    return None


def _sizes(actor: Path) -> set[int]:
    """Numbers of GPUs that the shards of an actor are for."""
    names = (SHARD.fullmatch(path.name) for path in actor.glob("model_world_size_*"))
    return {int(name[1]) for name in names if name}


def _ways_out(folder: Path, gpus: int) -> str:
    """The checkpoints beside one that is none, and the settings to go on from them."""
    others = [path for path in _candidates(folder) if fault(path, gpus) is None]
    anew = "start over with trainer.resume_mode=disable"
    if not others:
        return f"restore it, or {anew}"
    names = " or ".join(path.name for path in others)
    return (
        f"go on from {names} with trainer.resume_mode=resume_path "
        f"trainer.resume_from_path={others[-1]}, or {anew}"
    )


def _candidates(folder: Path) -> list[Path]:
    """The best checkpoint and those up to the marked one; later ones may be half written."""
    last = last_whole(folder)
    best = [folder / BEST] if (folder / BEST).is_dir() else []
    whole = [path for path in numbered(folder) if last is None or step_of(path) <= last]
    return best + whole


def check_resuming(trainer: Any) -> None:
    """Refuse a checkpoint to go on from that is none."""
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


def settle(trainer: Any) -> None:
    """Name the folder to go on from as verl needs it, by its step: `best` gets that name back."""
    check_resuming(trainer)
    if trainer.resume_mode == "resume_path":
        folder = Path(trainer.resume_from_path).absolute()
        trainer.resume_from_path = str(_by_its_step(folder) if is_best(folder.name) else folder)


def _by_its_step(best: Path) -> Path:
    """The best checkpoint under the name that it was saved by, its files shared."""
    saved = load(best)
    folder = best.with_name(f"{STEP}{saved['best'][0]}")
    if not (folder / "actor").exists():
        files.link_copy(best, folder.name)
    if load(folder)["elapsed"] != saved["elapsed"]:
        raise MetisError(
            f"trainer.resume_from_path = {str(best)!r}: {folder.name} beside it, whose name it "
            "needs, is a checkpoint of another attempt: move that away"
        )
    return folder


def chosen(trainer: Any) -> Path | None:
    """The folder that verl goes on from, by its settings."""
    from verl.utils.checkpoint.checkpoint_manager import find_latest_ckpt_path

    if trainer.resume_mode == "disable":
        return None
    folder = trainer.resume_from_path
    if trainer.resume_mode == "auto":
        folder = find_latest_ckpt_path(os.path.abspath(trainer.default_local_dir))
    return Path(folder).absolute() if folder else None


def load(folder: Path) -> dict[str, Any]:
    """The curriculum's state in a checkpoint."""
    path = folder / STATE
    if not path.exists():
        raise MetisError(
            f"{str(path)!r} is missing: the checkpoint is of another trainer; train on with it, or "
            "start with trainer.resume_mode=disable"
        )
    return state.load_state(path)


def settings_of_the_run(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run without those of this start, which the next one does not repeat."""
    engine = resolved["engine"]
    words = [word for word in engine["overrides"] if _key(word) not in OF_A_START]
    return {**resolved, "engine": {**engine, "overrides": words}}


def same_run(before: Sequence[str], now: Sequence[str]) -> bool:
    """True of overrides that are equal but for words that a resumed run may change."""
    return _of_the_run(before) == _of_the_run(now)


def step_at_start(overrides: Sequence[str], folder: Path) -> int:
    """The step that this start goes on from, with these checkpoints."""
    mode = _value(overrides, MODE) or "auto"
    if mode == "auto":
        return marked(folder) or 0
    place = Path(_value(overrides, PLACE) or "").absolute()
    if mode == "disable" or not place.is_dir():
        return 0
    if is_best(place.name):
        return int(state.load_state(place / STATE)["best"][0])
    return step_of(place) if NUMBERED.fullmatch(place.name) else 0


def goes_on(overrides: Sequence[str]) -> bool:
    """True of a start that trains on from the latest checkpoint."""
    tested = (_value(overrides, ONLY_TESTED) or "false").lower() in ("true", "yes", "on", "1")
    return (_value(overrides, MODE) or "auto") == "auto" and not tested


def reason_to_begin_anew(overrides: Sequence[str]) -> str:
    """The reason of a start at step 0 in the folder of a run."""
    asked = _value(overrides, MODE) == "disable"
    return f"{MODE} is 'disable'" if asked else manifest.NO_CHECKPOINT


def _of_the_run(overrides: Sequence[str]) -> list[str]:
    keys = ((word, _key(word)) for word in overrides)
    return [word for word, key in keys if key not in OF_A_START and not key.endswith(OFFLOADED)]


def _key(word: str) -> str:
    return word.partition("=")[0].strip().lstrip("+~")


def _value(overrides: Sequence[str], key: str) -> str | None:
    """The value of a key, as Hydra takes it: the last one, with or without quotation marks."""
    values = [word.partition("=")[2] for word in overrides if _key(word) == key]
    return values[-1].strip().strip("'\"") if values else None


def set_best_aside(folder: Path, account: Account) -> str | None:
    """Rename `best` where it is not the best one of this account; a sentence about that.

    One that is older than the step of the account stays where that step tested best: the run was
    stopped before it was kept, and its test is made again.
    """
    best = folder / BEST
    own = _tested(best)
    if own is None or own == account.best or (account.improved and own[0] < account.step):
        return None
    kept = _free(best.with_name(f"{BEST}-of-step-{own[0]}"))
    best.rename(kept)
    so_far = f"step {account.best[0]}" if account.best[0] else "none yet"
    return (
        f"{best} was of step {own[0]}, and the best step of this attempt is {so_far}: it was "
        f"renamed to {kept.name}"
    )


def _tested(best: Path) -> tuple[int, float] | None:
    """Step and accuracy of a checkpoint that tested best, where it can be read."""
    try:
        step, accuracy = state.load_state(best / STATE)["best"]
    except (MetisError, OSError, KeyError):
        return None
    return int(step), float(accuracy)


def _free(path: Path) -> Path:
    """This name, or with the first number that nothing has."""
    names = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    return next(name for name in itertools.chain([path], names) if not name.exists())
