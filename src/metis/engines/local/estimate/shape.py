"""A model's sizes, read from its folder without loading it."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a decoder: parameters, vocabulary, and the widths of its layers.

    keys is the width of a token's keys, and of its values, over all heads of a layer.
    """

    weights: int
    vocabulary: int
    layers: int
    hidden: int
    inner: int
    keys: int

    @classmethod
    def of(cls, folder: Path) -> Self | None:
        """The sizes of a model folder; None where its files do not tell."""
        try:
            config = json.loads((folder / "config.json").read_text("utf-8"))
            stored = sum(map(_parameters, folder.glob("*.safetensors")))
            shape = cls.described(config.get("text_config", config))
        except (OSError, ValueError, KeyError):
            return None
        return replace(shape, weights=stored) if stored else shape

    @classmethod
    def described(cls, config: Mapping[str, Any]) -> Self:
        """The sizes by a model's config.json alone, with the weights of a dense decoder."""
        heads, hidden = config["num_attention_heads"], config["hidden_size"]
        head = config.get("head_dim") or hidden // heads
        keys = head * (config.get("num_key_value_heads") or heads)
        layers, inner = config["num_hidden_layers"], config["intermediate_size"]
        layer = hidden * (2 * heads * head + 2 * keys + 3 * inner)
        ends = 1 if config.get("tie_word_embeddings") else 2
        weights = ends * config["vocab_size"] * hidden + layers * layer
        return cls(weights, config["vocab_size"], layers, hidden, inner, keys)

    @property
    def adapters(self) -> int:
        """Parameters of LoRA adapters on every linear layer, for each of their ranks."""
        attention = 4 * self.hidden + 2 * (self.hidden + self.keys)
        return self.layers * (attention + 3 * (self.hidden + self.inner))


def _parameters(path: Path) -> int:
    """Parameters of a file of weights, by its header."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header: dict[str, Any] = json.loads(file.read(size))
    return sum(math.prod(part["shape"]) for name, part in header.items() if name != "__metadata__")
