"""Command lines about a run, which work from where they are read."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

SEEDS = ("0", "1", "2")
"""The seeds of an advised comparison."""


@dataclass(frozen=True)
class Commands:
    """Command lines about the run in a folder, named as here."""

    folder: Path
    place: int = 1
    """Of several commands: runs that they train have folders of their own."""

    def view(self) -> str:
        return line("view", self.folder)

    def answer(self, step: int, prompt: str, rollout: int) -> str:
        return line("inspect", self.folder, "--answer", f"{step}/{prompt}/{rollout}")

    def again(self, *settings: str) -> str:
        """Train another run with other settings, beside this one."""
        return line("train", self.recipe, *settings, "--out", self._beside("again"))

    def survey(self) -> str:
        return line("survey", self.recipe)

    def compare(self, *curricula: str, **variants: str) -> str:
        """Compare curricula, and other variants by their settings, on the recipe of the run."""
        named = [
            word
            for name, settings in variants.items()
            for word in ("--variant", f"{name}:{settings}")
        ]
        words = ["--curricula", ",".join(curricula), *named, "--seeds", ",".join(SEEDS)]
        return line("compare", self.recipe, *words, "--out", self._beside("compared"))

    def _beside(self, name: str) -> str:
        """A folder beside that of the run."""
        nth = f"-{self.place}" if self.place > 1 else ""
        return os.path.normpath(self.folder / ".." / f"{self.folder.resolve().name}-{name}{nth}")

    @property
    def recipe(self) -> Path:
        return self.folder / "config.json"


def line(*words: object) -> str:
    """A command line for a shell."""
    return shlex.join(["metis", *map(str, words)])
