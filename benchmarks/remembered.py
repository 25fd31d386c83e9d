"""States of prompts and of judge prompts, each read once and kept in a file."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metis import MetisError, Prompt, files
from metis.core import LAST, Chat, Embed, Engine
from metis.core.requests import Vectors


class Remembered(Engine):
    """States of a model that does not learn.

    engine gives the model when a state has to be read, chat what it reads of a prompt; model tells
    it from others, as a file has the states of one.
    """

    def __init__(
        self,
        engine: Callable[[], Engine],
        chat: Callable[[Prompt], Chat],
        model: str,
        path: Path | None,
    ) -> None:
        self.engine, self.chat, self.model, self.path = engine, chat, model, path
        self.known = self._kept()
        self.new = 0

    def embed(
        self, prompts: Sequence[Prompt] | Sequence[Chat], depths: Sequence[float] = LAST
    ) -> Vectors:
        keys = [[self._key(each, depth) for depth in depths] for each in prompts]
        new = [
            (each, mine)
            for each, mine in zip(prompts, keys, strict=True)
            if not self.known.keys() >= set(mine)
        ]
        if new:
            asked, places = zip(*new, strict=True)
            states = self.engine().answer(Embed(asked, depths))
            for mine, state in zip(places, states, strict=True):
                self.known |= zip(mine, np.split(state, len(depths)), strict=True)
            self.new += len(new)
        return [np.concatenate([self.known[key] for key in mine]) for mine in keys]

    def keep(self) -> None:
        """Write new states to the file, if there is one, with those that are there."""
        if self.path is None or not self.new:
            return
        self.known = self._kept() | self.known
        self.path.parent.mkdir(parents=True, exist_ok=True)
        keys, states = list(self.known), np.stack(list(self.known.values()))
        with files.atomic(self.path) as file:
            np.savez(file, model=self.model, keys=keys, states=states)
        self.new = 0

    def _kept(self) -> dict[str, NDArray[np.float32]]:
        """The states in the file."""
        if self.path is None or not self.path.exists():
            return {}
        with np.load(self.path) as kept:
            if kept["model"] != self.model:
                raise MetisError(f"--states {str(self.path)!r} is of another model: name another")
            return dict(zip(kept["keys"].tolist(), kept["states"], strict=True))

    def _key(self, asked: Prompt | Chat, depth: float) -> str:
        read = self.chat(asked) if isinstance(asked, Prompt) else asked
        return hashlib.sha256(f"{depth:.4f} {json.dumps(read)}".encode()).hexdigest()
