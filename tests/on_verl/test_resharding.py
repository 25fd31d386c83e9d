"""Checkpoints that go from some ranks to others: real FSDP over gloo, verl's checkpoint manager."""

import multiprocessing
from datetime import timedelta
from functools import partial

import pytest
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer
from verl import DataProto
from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager
from verl.utils.fsdp_utils import fsdp_version

from integration.conftest import save_tiny
from metis.engines.verl import shards
from metis.engines.verl.workers.resharding import resharded

CONTENTS = ["model", "optimizer", "extra"]
CPU = torch.device("cpu")


class Rank:
    """A rank of FSDP with AdamW, as verl's engine has it."""

    def __init__(self, path, strategy, size):
        self.world_size = size
        self.device_mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("fsdp",))
        module = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        if strategy == "fsdp":
            layers = ModuleWrapPolicy({LlamaDecoderLayer})
            self.module = FullyShardedDataParallel(
                module, auto_wrap_policy=layers, device_mesh=self.device_mesh, device_id=CPU
            )
        else:
            for layer in module.model.layers:
                fully_shard(layer, mesh=self.device_mesh)
            self.module = fully_shard(module, mesh=self.device_mesh)
        self.optimizer = torch.optim.AdamW(self.module.parameters(), lr=0.01)
        self.schedule = torch.optim.lr_scheduler.ConstantLR(self.optimizer, 0.5)
        self.manager = FSDPCheckpointManager(
            self.module,
            self.optimizer,
            self.schedule,
            checkpoint_config={"save_contents": CONTENTS, "load_contents": CONTENTS},
        )
        self.engine = self

    def execute_with_func_generator(self, function, data):
        """In one process for each rank, as verl's workers."""
        rank = distributed.get_rank()
        part = DataProto.from_dict({"rank": data.batch["rank"][rank : rank + 1]})
        part.meta_info |= data.meta_info
        function(self, part)
        distributed.barrier()

    def step(self):
        tokens = torch.arange(24).reshape(2, 12)
        self.module(input_ids=tokens, labels=tokens).loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()

    def weights(self):
        """The whole weights after a further step, which shows AdamW's moments too."""
        self.step()
        if fsdp_version(self.module) == 1:
            with FullyShardedDataParallel.summon_full_params(self.module, writeback=False):
                return {
                    name.replace("_fsdp_wrapped_module.", ""): value.detach().clone()
                    for name, value in self.module.named_parameters()
                }
        named = self.module.named_parameters()
        return {name: value.full_tensor().detach() for name, value in named}


def saved(model, folder, strategy, size):
    rank = Rank(model, strategy, size)
    rank.step()
    rank.manager.save_checkpoint(str(folder / "actor"), global_step=1)
    whole = rank.weights()
    if distributed.get_rank() == 0:
        torch.save(whole, folder / "expected.pt")


def loaded(model, folder, strategy, size):
    rank = Rank(model, strategy, size)
    with torch.no_grad():
        for parameter in rank.module.parameters():
            own = parameter.to_local() if isinstance(parameter, DTensor) else parameter
            own.zero_()
    before = distributed.get_rank() == 0 and {path.name for path in (folder / "actor").iterdir()}
    distributed.barrier()  # other ranks write their shards from here on
    with resharded(folder / "actor", rank):
        rank.manager.load_checkpoint(str(folder / "actor"))
        distributed.barrier()
    distributed.barrier()
    assert rank.optimizer.param_groups[0]["lr"] == rank.schedule.get_last_lr()[0] == 0.005
    whole = rank.weights()
    if distributed.get_rank() == 0:
        assert {path.name for path in (folder / "actor").iterdir()} == before
        expected = torch.load(folder / "expected.pt")
        assert whole.keys() == expected.keys()
        for name, value in expected.items():
            assert torch.allclose(whole[name], value, atol=1e-6), name


def on_ranks(size, function, *given):
    """Forks of this process, which has imported what they need."""
    fork = multiprocessing.get_context("fork")
    store = given[1] / f"store-{size}-{function.__name__}"
    ranks = [
        fork.Process(target=_rank, args=(rank, size, store, partial(function, *given, size)))
        for rank in range(size)
    ]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
    assert [each.exitcode for each in ranks] == [0] * size


def _rank(rank, size, store, work):
    torch.set_num_threads(1)
    place = f"file://{store}"
    distributed.init_process_group(
        "gloo", init_method=place, rank=rank, world_size=size, timeout=timedelta(minutes=20)
    )
    work()
    distributed.destroy_process_group()


@pytest.mark.parametrize("strategy", ["fsdp2", "fsdp"])
def test_a_checkpoint_of_two_ranks_goes_on_in_one_and_in_four(strategy, tmp_path):
    """FSDP1 is verl's default, and divides AdamW's moments in another way than the weights."""
    model = save_tiny(tmp_path / "model")
    on_ranks(2, saved, model, tmp_path, strategy)
    assert shards.world_sizes(tmp_path / "actor") == {2}
    on_ranks(1, loaded, model, tmp_path, strategy)
    on_ranks(4, loaded, model, tmp_path, strategy)


def test_a_checkpoint_of_one_rank_goes_on_in_two(tmp_path):
    """On one rank FSDP1 divides nothing."""
    model = save_tiny(tmp_path / "model")
    on_ranks(1, saved, model, tmp_path, "fsdp")
    on_ranks(2, loaded, model, tmp_path, "fsdp")
