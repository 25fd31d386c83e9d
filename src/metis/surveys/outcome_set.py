"""Outcome sets: what a survey found, in a file small enough for a repository.

A gzip of JSON lines. The first says what was surveyed: settings, versions, the size of the pool.
Each other line is a prompt: its id, the rewards and lengths of its rollouts, how many failed and
how many were truncated. No texts: they are those of the data set, joined by id. The same outcomes
make the same bytes.
"""

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metis import files
from metis.core import Prompt
from metis.errors import MetisError
from metis.report.reproduce import portable
from metis.surveys.facts import PromptOutcome

FORMAT = "metis outcome set 1"
SUFFIX = ".jsonl.gz"
NAMED = 3
"""Missing ids that an error names."""


@dataclass(frozen=True)
class OutcomeSet:
    """Outcomes of prompts, and a description of what was surveyed."""

    settings: Mapping[str, Any]
    """Settings of the survey, without the paths of a machine."""
    versions: Mapping[str, Any]
    pool: int
    """Prompts that the surveyed ones were drawn from."""
    outcomes: Sequence[PromptOutcome]

    def write(self, path: Path) -> None:
        """Write the set, whole or not at all."""
        about = {
            "format": FORMAT,
            "settings": portable(dict(self.settings)),
            "versions": dict(self.versions),
            "pool": self.pool,
            "columns": ["prompt", "rewards", "tokens", "failed", "cut_off"],
        }
        rows = [
            [o.prompt, [_short(r) for r in o.rewards], list(o.tokens), o.failed, o.cut_off]
            for o in self.outcomes
        ]
        lines = "".join(f"{json.dumps(row, separators=(',', ':'))}\n" for row in [about, *rows])
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.atomic(path) as file:
            file.write(gzip.compress(lines.encode(), mtime=0))

    @classmethod
    def read(cls, path: Path) -> "OutcomeSet":
        """The set of a file; categories are unknown before `joined`."""
        try:
            about, *rows = map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
            if about["format"] != FORMAT:
                raise ValueError(f"its format is {about['format']!r}, not {FORMAT!r}")
            outcomes = [
                PromptOutcome(name, "", tuple(map(float, rewards)), tuple(tokens), failed, cut_off)
                for name, rewards, tokens, failed, cut_off in rows
            ]
            return cls(about["settings"], about["versions"], about["pool"], outcomes)
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            raise MetisError(
                f"outcome set {str(path)!r} cannot be read: {error}; `metis survey --keep` writes "
                "one"
            ) from None

    def joined(self, prompts: Iterable[Prompt]) -> list[tuple[Prompt, PromptOutcome]]:
        """Every outcome beside its prompt, of whose category it is."""
        by_id = {prompt.id: prompt for prompt in prompts}
        missing = [outcome.prompt for outcome in self.outcomes if outcome.prompt not in by_id]
        if missing:
            some = ", ".join(missing[:NAMED])
            raise MetisError(
                f"{len(missing)} of {len(self.outcomes)} prompts of the outcome set are not in the "
                f"data ({some}): it is of other data, or of data that was prepared differently"
            )
        return [
            (by_id[outcome.prompt], outcome._replace(category=by_id[outcome.prompt].category))
            for outcome in self.outcomes
        ]


def _short(reward: float) -> float | int:
    """A reward in as few characters as possible."""
    return int(reward) if reward == int(reward) else reward
