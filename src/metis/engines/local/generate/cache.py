"""The KV cache of decoding: buffers of a fixed size, written in place.

Rows are left-padded, so all rows write the same column in a step. Fixed addresses let CUDA graphs
replay a step, and no token copies the cache.
"""

from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer


class BufferedLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values of one layer: rows x heads x columns x head_dim."""

    column: torch.Tensor

    def __init__(self, like: torch.Tensor, rows: int, columns: int, dtype: torch.dtype) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        _, heads, _, width = like.shape
        shape = (rows, heads, columns, width)
        self.buffers = [torch.empty(shape, dtype=dtype, device=like.device) for _ in range(2)]
        self.lazy_initialization(*self.buffers)

    def aim(self, rows: int, columns: int, column: torch.Tensor) -> None:
        """Let the next `update` write `column`, and read the first rows and columns."""
        self.column = column
        self.keys, self.values = (buffer[:rows, :, :columns] for buffer in self.buffers)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = self.keys, self.values
        assert keys is not None and values is not None
        keys.index_copy_(2, self.column, key_states.to(keys.dtype))
        values.index_copy_(2, self.column, value_states.to(values.dtype))
        return keys, values


class Buffers:
    """The layers of a cache, for at most `rows` x `columns`, and the additive attention mask."""

    def __init__(self, read: Any, rows: int, columns: int, dtype: torch.dtype) -> None:
        """Empty buffers for a model whose prefilled cache is `read`."""
        self.rows, self.columns = rows, columns
        self.layers = [BufferedLayer(layer.keys, rows, columns, dtype) for layer in read.layers]
        self.cache: Any = DynamicCache()
        self.cache.layers = list(self.layers)
        device = self.layers[0].buffers[0].device
        self.bias = torch.empty(rows, 1, 1, columns, dtype=dtype, device=device)

    def fits(self, rows: int, columns: int) -> bool:
        return rows <= self.rows and columns <= self.columns

    def fill(self, read: Any, mask: torch.Tensor, places: torch.Tensor) -> None:
        """Copy row `places[i]` of a prefilled cache, with its mask, to row i."""
        rows, width = len(places), mask.shape[1]
        for layer, source in zip(self.layers, read.layers, strict=True):
            for buffer, states in zip(layer.buffers, (source.keys, source.values), strict=True):
                buffer[:rows, :, :width] = states[places]
        self.bias.fill_(-torch.inf)
        self.bias[:rows, 0, 0, :width].masked_fill_(mask[places].bool(), 0.0)

    def keep(self, places: torch.Tensor, width: int) -> None:
        """Move the rows `places` to the front."""
        tensors = [buffer for layer in self.layers for buffer in layer.buffers]
        for tensor, axis in [*((buffer, 2) for buffer in tensors), (self.bias, 3)]:
            used = tensor.narrow(axis, 0, width)
            used[: len(places)] = used[places]

    def aim(self, rows: int, columns: int, column: torch.Tensor) -> torch.Tensor:
        """Open `column` in the mask and point all layers to it; returns the mask."""
        for layer in self.layers:
            layer.aim(rows, columns, column)
        return self.bias[:rows, :, :, :columns].index_fill_(3, column, 0.0)
