"""Hidden states of the last token of prompts, in the actor.

All of verl's workers run the function, each on its share of the rows, since FSDP gathers weights
collectively.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from transformers import AutoConfig
from verl import DataProto
from verl.utils.device import get_device_id, get_device_name

from metis.core import LAST
from metis.engines.hidden_states import layers_at, padded
from metis.engines.verl.workers.lengths import sharing
from metis.errors import MetisError


@contextmanager
def _kept(module: Any, rows: torch.Tensor, ends: torch.Tensor) -> Iterator[list[torch.Tensor]]:
    """Collect the decoder's output (after the final norm) at these tokens, with a forward hook.

    Unlike output_hidden_states=True, this keeps no other layer's states.
    """
    states: list[torch.Tensor] = []

    def take(_: Any, __: Any, output: Any) -> None:
        states.append(output.last_hidden_state[rows, ends].float().cpu())

    hook = module.get_decoder().register_forward_hook(take)
    try:
        yield states
    finally:
        hook.remove()


def last_states(worker: Any, data: DataProto) -> DataProto:
    """Runs in every actor worker: hidden states of its rows, in one forward pass."""
    engine = worker.actor.engine
    sizes = data.batch["sizes"].to(get_device_id())
    tokens = data.batch["tokens"].to(get_device_id())
    places = torch.arange(tokens.shape[1], device=tokens.device)
    rows = torch.arange(len(tokens), device=tokens.device)
    dtype = getattr(engine, "_autocast_dtype", torch.bfloat16)
    narrow = dtype != torch.float32
    with (
        engine.eval_mode(),
        torch.no_grad(),
        torch.autocast(get_device_name(), dtype) if narrow else nullcontext(),
        _kept(engine.module, rows, sizes - 1) as states,
    ):
        depths = data.meta_info.get("depths", LAST)
        output = engine.module(
            input_ids=tokens,
            attention_mask=(places < sizes[:, None]).long(),
            position_ids=places.expand_as(tokens),
            logits_to_keep=1,
            return_dict=True,
            use_cache=False,
            **({} if depths == LAST else {"output_hidden_states": True}),
        )
        if depths != LAST:
            layers = output.hidden_states
            states = [
                layers[layer][rows, sizes - 1].float().cpu()
                for layer in layers_at(depths, len(layers) - 1)
            ]
    return DataProto.from_dict({"states": torch.cat(states, dim=1)})


class States:
    """Reads hidden states of `size` dimensions from the actor's workers.

    `budget` is the maximum of padded tokens per worker and pass; `shared` is true with sequence
    parallelism.
    """

    def __init__(self, workers: Any, size: int, budget: int, shared: bool) -> None:
        self.workers, self.size, self.budget, self.shared = workers, size, budget, shared
        self.processed = 0

    @classmethod
    def of_actor(cls, workers: Any, config: Any, folder: str) -> "States":
        """From verl's configuration and the model folder."""
        settings = config.actor_rollout_ref
        trusted = settings.model.get("trust_remote_code", False)
        model_config = AutoConfig.from_pretrained(folder, trust_remote_code=trusted)
        size = model_config.get_text_config().hidden_size
        budget = settings.actor.ppo_max_token_len_per_gpu
        return cls(workers, size, budget, shared=sharing(config) > 1)

    def of(self, sequences: Sequence[list[int]], depths: Sequence[float] = LAST) -> torch.Tensor:
        if self.shared:
            raise MetisError(
                "ulysses_sequence_parallel_size: hidden states are not supported with sequence "
                "parallelism; set it to 1, or use another curriculum"
            )
        order = sorted(range(len(sequences)), key=lambda i: -len(sequences[i]))
        states, done = [], 0
        while done < len(order):
            longest = len(sequences[order[done]])
            rows = max(1, self.budget // longest) * self.workers.world_size
            states.append(self._pass([sequences[i] for i in order[done : done + rows]], depths))
            done += rows
        return torch.cat(states)[torch.tensor(order).argsort()]

    def _pass(self, sequences: Sequence[list[int]], depths: Sequence[float]) -> torch.Tensor:
        """One pass on all workers, padded with copies of the last sequence."""
        filled = [*sequences, *[sequences[-1]] * (-len(sequences) % self.workers.world_size)]
        tokens, sizes = padded(filled)
        data = DataProto.from_dict({"tokens": tokens, "sizes": sizes})
        data.meta_info["depths"] = tuple(depths)
        output = self.workers.execute_with_func_generator(last_states, data)
        self.processed += int(sizes.sum())
        states: torch.Tensor = output.batch["states"][: len(sequences)]
        return states
