"""The files of a checkpoint that each rank of verl's FSDP workers writes (its shards)."""

import re
import zipfile
from pathlib import Path

KINDS = ("model", "optim", "extra_state")
RANK = re.compile(rf"({'|'.join(KINDS)})_world_size_(\d+)_rank_(\d+)\.pt")


def world_sizes(folder: Path) -> set[int]:
    """The world sizes of the shards in an actor's or critic's folder."""
    return {int(name[2]) for name in _names(folder)}


def missing(folder: Path, size: int) -> list[str]:
    """The shards of world size `size` that are missing or incomplete.

    Every rank writes the same kinds of file.
    """
    kinds = {name[1] for name in _names(folder) if int(name[2]) == size}
    files = (name(kind, size, rank) for rank in range(size) for kind in sorted(kinds))
    return [file for file in files if not zipfile.is_zipfile(folder / file)]


def to_read(folder: Path, size: int) -> int | None:
    """The world size whose shards `size` ranks read: their own if complete, else another."""
    whole = [each for each in world_sizes(folder) if not missing(folder, each)]
    return size if size in whole else max(whole, default=None)


def name(kind: str, size: int, rank: int) -> str:
    """verl's file name of a shard."""
    return f"{kind}_world_size_{size}_rank_{rank}.pt"


def _names(folder: Path) -> list[re.Match[str]]:
    names = (RANK.fullmatch(path.name) for path in folder.glob("*_world_size_*.pt"))
    return [name for name in names if name]
