"""Resharding: resumes a checkpoint on another number of FSDP ranks than wrote it.

Each of verl's workers loads a file with its own shard of weights and AdamW moments. So before it
does, it writes that file, in verl's format, from all shards of the checkpoint.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from verl import DataProto
from verl.utils.fsdp_utils import fsdp_version

from metis.engines.verl import shards
from metis.errors import MetisError

WRAPPED = "_fsdp_wrapped_module."


@contextmanager
def resharded(folder: Path, workers: Any) -> Iterator[None]:
    """Reshard the checkpoint in a folder for these workers, if another number of them wrote it."""
    size = workers.world_size
    source = shards.to_read(folder, size)
    if source is None or source == size:
        yield
        return
    print(f"metis: {folder}: resharded from {source} to {size} GPUs", flush=True)
    data = DataProto.from_dict({"rank": torch.arange(size)})
    data.meta_info |= {"folder": str(folder), "source": source}
    try:
        workers.execute_with_func_generator(_reshard, data)
        yield
    finally:
        for kind in shards.KINDS:
            for rank in range(size):
                (folder / shards.name(kind, size, rank)).unlink(missing_ok=True)


def _reshard(worker: Any, data: DataProto) -> DataProto:
    """Runs in every worker: write its shards."""
    engine = getattr(worker, "actor", worker).engine
    folder, source = Path(data.meta_info["folder"]), data.meta_info["source"]
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()

    def read(kind: str) -> list[Any]:
        paths = [folder / shards.name(kind, source, each) for each in range(source)]
        return [
            torch.load(path, map_location="cpu", mmap=True, weights_only=False) for path in paths
        ]

    def write(kind: str, state: Any) -> None:
        torch.save(state, folder / shards.name(kind, size, rank))

    write("model", _model(engine, read("model")))
    if engine.optimizer is not None:
        write("optim", _optimizer(engine.optimizer, read("optim"), rank, size))
    write("extra_state", read("extra_state")[rank % source])
    return data


def _model(engine: Any, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    module, whole = engine.module, _wholes(parts)
    if fsdp_version(module) == 2:
        own = module.state_dict()
        return {key: _like(own.get(key), value) for key, value in whole}
    if torch.distributed.get_world_size() == 1:  # FSDP1 then divides nothing
        return dict(whole)
    same = {key.replace(WRAPPED, "") for key, _ in module.named_buffers()}
    return {
        key: value if key in same else _divided(value, engine.device_mesh, [Shard(0)])
        for key, value in whole
    }


def _optimizer(
    optimizer: Any, parts: Sequence[Mapping[str, Any]], rank: int, size: int
) -> dict[str, Any]:
    params = [param for group in optimizer.param_groups for param in group["params"]]
    state = {
        number: {
            key: _flat(param, [part["state"][number][key] for part in parts], rank, size)
            if hasattr(param, "_unpadded_unsharded_size") and value.dim()
            else _like(param, value)
            for key, value in _wholes([part["state"][number] for part in parts])
        }
        for number, param in enumerate(params)
        if number in parts[0]["state"]
    }
    return {**parts[0], "state": state}


def _wholes(parts: Sequence[Mapping[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """The entries of a state dict, each gathered from the shards."""
    return ((key, _whole([part[key] for part in parts])) for key in parts[0])


def _whole(parts: Sequence[Any]) -> Any:
    first = parts[0]
    if not isinstance(first, DTensor):
        return first
    if len(first.placements) != 1:
        raise MetisError(
            "actor_rollout_ref.actor.fsdp_config.fsdp_size: a checkpoint of several FSDP groups "
            "can only be resumed on as many GPUs as wrote it"
        )
    [placement] = first.placements
    if not isinstance(placement, Shard):
        return first.to_local()
    return torch.cat([part.to_local() for part in parts], dim=placement.dim)


def _like(own: Any, value: Any) -> Any:
    """A full tensor, sharded like this worker's own."""
    is_divided = isinstance(own, DTensor) and isinstance(value, torch.Tensor) and value.dim()
    return _divided(value, own.device_mesh, own.placements) if is_divided else value


def _divided(value: torch.Tensor, mesh: Any, placements: Any) -> torch.Tensor:
    return distribute_tensor(value, mesh, placements, src_data_rank=None).cpu()


def _flat(param: Any, parts: Sequence[torch.Tensor], rank: int, size: int) -> torch.Tensor:
    """This rank's shard of an FSDP1 flat parameter, padded with zeros."""
    length = param._unpadded_unsharded_size.numel()
    share = -(-length // size)
    own = torch.cat(list(parts))[:length][rank * share : (rank + 1) * share]
    return torch.nn.functional.pad(own, (0, share - len(own)))
