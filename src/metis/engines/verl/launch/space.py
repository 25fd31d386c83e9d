"""Checks the disk space for checkpoints before a run starts."""

import shutil
from pathlib import Path
from typing import Any

from metis.engines import model_files
from metis.engines.local.estimate.shape import ModelShape
from metis.engines.verl import checkpoints


def space_notice(config: Any, out: Path) -> str | None:
    """A notice if the disk lacks space for the checkpoints that a run keeps at once."""
    kept, folder = config.training.checkpoints, model_files.on_disk(config.engine.model)
    shape = ModelShape.of(folder) if folder else None
    if shape is None or not kept.every:
        return None
    at_once = max(2, kept.keep) + 1  # and `best`
    missing = max(0, at_once - len(checkpoints.numbered(out / "verl")))
    needed = missing * _size(shape, config.engine.lora)
    place = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    if needed <= free:
        return None
    return (
        f"checkpoints will take {needed / 1e9:,.0f} GB in {out}, where {free / 1e9:,.0f} GB are "
        "free: free some space, choose another --out, or set checkpoints.every=0"
    )


def _size(shape: ModelShape, lora: int) -> float:
    """Bytes of a checkpoint: weights and AdamW's moments in float32, and without LoRA also the
    weights in Hugging Face's format."""
    return 4.0 * shape.weights + 12.0 * (lora * shape.adapters if lora else shape.weights)
