"""Checkpoints that a start on verl can go on from, and what is wrong with the others.

verl starts at step 0, without a word, where its marker names a folder that is not there; other
faults it meets when its models are loaded.
"""

import re
from pathlib import Path

from metis.core import state
from metis.engines.verl.launch import retention
from metis.errors import MetisError

STATE = "metis.state"
"""The curriculum's file in a checkpoint of verl."""
SHARD = re.compile(r"model_world_size_(\d+)_rank_0\.pt")


def check_marked(folder: Path, gpus: int) -> None:
    """Refuse a folder of checkpoints whose marker names one that this start cannot go on from."""
    step = retention.marked(folder)
    if step is None:
        return
    named = folder / f"{retention.STEP}{step}"
    if wrong := fault(named, gpus):
        marker = folder / retention.MARKER
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
        state.load(folder / STATE)
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
    last = retention.last_whole(folder)
    numbered = retention.numbered(folder)
    best = [folder / retention.BEST] if (folder / retention.BEST).is_dir() else []
    return best + [path for path in numbered if last is None or retention.step_of(path) <= last]
