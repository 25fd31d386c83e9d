"""States of prompts and of judge prompts, each read once and kept in a file."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metis import Prompt, files
from metis.core import LAST, Chat, Engine

States = Sequence[NDArray[np.float32]]


class Remembered:
    """States of a model that does not learn; `engine` gives it when one has to be read."""

    def __init__(self, engine: Callable[[], Engine], model: str, path: Path | None) -> None:
        self.engine, self.model, self.path = engine, model, path
        self.kept = 0
        self.known: dict[str, NDArray[np.float32]] = {}
        if path is not None and path.exists():
            with np.load(path) as kept:
                self.known = dict(zip(kept["keys"].tolist(), kept["states"], strict=True))
            self.kept = len(self.known)

    def embed(
        self, prompts: Sequence[Prompt] | Sequence[Chat], depths: Sequence[float] = LAST
    ) -> States:
        new = [
            each for each in prompts if any(self._key(each, d) not in self.known for d in depths)
        ]
        if new:
            read = self.engine().embed(new, depths)  # type: ignore[arg-type]  # all of one kind
            for each, state in zip(new, read, strict=True):
                for depth, part in zip(depths, np.split(state, len(depths)), strict=True):
                    self.known[self._key(each, depth)] = part
        keys = [[self._key(each, depth) for depth in depths] for each in prompts]
        return [np.concatenate([self.known[key] for key in mine]) for mine in keys]

    def keep(self) -> None:
        """Write the states to the file, if there is one and some are new."""
        if self.path is not None and len(self.known) > self.kept:
            with files.atomic(self.path) as file:
                np.savez(file, keys=list(self.known), states=np.stack(list(self.known.values())))
            self.kept = len(self.known)

    def _key(self, asked: Prompt | Chat, depth: float) -> str:
        written = asked.id if isinstance(asked, Prompt) else json.dumps(asked)
        return hashlib.sha256(f"{self.model} {depth:.4f} {written}".encode()).hexdigest()
