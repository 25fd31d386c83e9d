"""The ranking: predictions in the order of their score, written best first."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metis import files
from metis.rankings.predictions import RankingFolder
from metis.run.folder import parse_row
from metis.signal import VARIANCE_MAX
from metis.surveys.facts import PromptOutcome

FILE = "ranking.jsonl"


@dataclass(frozen=True)
class Ranking:
    """Numbers of all prompts, as columns in the order of the file; NaN where nothing is known."""

    scores: NDArray[np.float64]
    pass_rates: NDArray[np.float64]
    rows: NDArray[np.int64]
    places: NDArray[np.int64]
    """Bytes of the log before each prediction."""
    order: NDArray[np.int64]
    """Positions by score, the highest first; equal ones in the order of the file."""

    @classmethod
    def of(cls, folder: RankingFolder, count: int) -> "Ranking":
        """The ranking of so many predictions."""
        scores, rates = np.full(count, np.nan), np.full(count, np.nan)
        rows, places = np.zeros(count, np.int64), np.zeros(count, np.int64)
        place = 0
        with folder.predictions.open("rb") as file:
            for number, line in enumerate(file):
                row = parse_row(folder.predictions, number + 1, line, "predictions")
                scores[number] = np.nan if row["score"] is None else row["score"]
                rates[number] = np.nan if row["pass_rate"] is None else row["pass_rate"]
                rows[number], places[number] = row["row"], place
                place += len(line)
        return cls(scores, rates, rows, places, np.argsort(-scores, kind="stable"))

    @property
    def variances(self) -> NDArray[np.float64]:
        """Expected variances, best first; those of prompts without a prediction are left out."""
        ranked = self.scores[self.order]
        return np.asarray(within(ranked[~np.isnan(ranked)]))

    @property
    def ranked_pass_rates(self) -> NDArray[np.float64]:
        """Expected pass rates, best first; empty where rewards are continuous."""
        ranked = self.pass_rates[self.order]
        return ranked[~np.isnan(ranked)]

    def lines(self, folder: RankingFolder, ranks: Sequence[int]) -> Iterator[dict[str, Any]]:
        """What is known of the prompts at some ranks, from 0."""
        measured = {outcome.prompt: outcome for outcome in folder.outcomes}
        with folder.predictions.open("rb") as file:
            for rank in ranks:
                file.seek(int(self.places[self.order[rank]]))
                yield _line(rank + 1, json.loads(file.readline()), measured)

    def write(self, folder: RankingFolder) -> None:
        """Write the ranking into its folder, best first."""
        with files.atomic(folder.path / FILE) as file:
            for line in self.lines(folder, range(len(self.order))):
                file.write(f"{json.dumps(line)}\n".encode())


def within(scores: Any) -> Any:
    """Scores as variances of rewards in [0, 1]."""
    return np.clip(scores, 0.0, VARIANCE_MAX)


def _line(rank: int, row: dict[str, Any], measured: dict[str, PromptOutcome]) -> dict[str, Any]:
    score, outcome = row["score"], measured.get(row["prompt"])
    line = {
        "rank": rank,
        "id": row["prompt"],
        "row": row["row"],
        "expected_variance": None if score is None else float(within(score)),
        "expected_pass_rate": row["pass_rate"],
    }
    if outcome is not None and outcome.rewards:
        line["measured_variance"] = outcome.variance
        line["measured_pass_rate"] = float(np.mean(outcome.rewards))
    return line
