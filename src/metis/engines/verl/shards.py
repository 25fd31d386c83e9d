"""The files that each rank of verl's FSDP workers writes into a checkpoint."""

import re
import zipfile
from pathlib import Path

RANK = re.compile(r"(model|optim|extra_state)_world_size_(\d+)_rank_(\d+)\.pt")


def world_sizes(folder: Path) -> set[int]:
    """The numbers of ranks that wrote the checkpoints of an actor or critic in a folder."""
    return {int(name[2]) for name in _names(folder)}


def missing(folder: Path, size: int) -> list[str]:
    """The files of `size` ranks that are not there, or were not written to their end.

    Every rank writes the same kinds of file.
    """
    kinds = {name[1] for name in _names(folder) if int(name[2]) == size}
    files = (name(kind, size, rank) for rank in range(size) for kind in sorted(kinds))
    return [file for file in files if not zipfile.is_zipfile(folder / file)]


def name(kind: str, size: int, rank: int) -> str:
    """verl's name of a file of one rank."""
    return f"{kind}_world_size_{size}_rank_{rank}.pt"


def _names(folder: Path) -> list[re.Match[str]]:
    names = (RANK.fullmatch(path.name) for path in folder.glob("*_world_size_*.pt"))
    return [name for name in names if name]
