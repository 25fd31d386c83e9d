"""Function calling over several turns: the multi-turn part of BFCL as a task.

Dialogues come from the files that `metis prepare bfcl` writes; the APIs that they call are
simulated by the package `bfcl-eval`, which is fetched once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from metis.core import Prompt
from metis.data import prepared
from metis.errors import MetisError, MissingData, require, require_at_least
from metis.tasks.bfcl.dialogue import Dialogue
from metis.tasks.bfcl.document import CATEGORIES, Malformed
from metis.tasks.bfcl.episode import OFFICIAL_STEPS, Episode
from metis.tasks.bfcl.package import apis
from metis.tasks.bfcl.scoring import SPARE_CALLS, Abstention
from metis.tasks.division import divided
from metis.tasks.file import read_rows


@dataclass(frozen=True)
class Bfcl:
    """Settings of function calling.

    path          training dialogues: a file of `metis prepare bfcl`
    heldout_path  held-out dialogues, another such file; by default drawn from `path`
    heldout       number of held-out dialogues, drawn by the seed; with heldout_path, 0 is all
    categories    some of base, miss_func, miss_param, long_context, composite; empty is all
    steps         maximum replies with calls in a user's turn; the episode ends with more
    output        maximum characters of results shown after a reply; the rest is truncated
    abstention    when turns without a correct call count: if another turn `earned` a reward,
                  `always`, or never (`ignored`)
    spare_calls   calls per turn beyond the ground truth's without a penalty; with more, results
                  count in proportion, so that calling everything does not pay; 0 is no limit
    """

    path: str = "data/bfcl/train.parquet"
    heldout_path: str = "data/bfcl/heldout.parquet"
    heldout: int = 0
    categories: tuple[str, ...] = ()
    steps: int = OFFICIAL_STEPS
    output: int = 4000
    abstention: Abstention = "earned"
    spare_calls: int = SPARE_CALLS

    def __post_init__(self) -> None:
        require(bool(self.path), "task.path", self.path, "name a file of `metis prepare bfcl`")
        least = {
            "heldout": 0 if self.heldout_path else 1,
            "steps": 1,
            "output": 1,
            "spare_calls": 0,
        }
        require_at_least(self, least, "task.")
        for name in self.categories:
            names = ", ".join(CATEGORIES)
            require(name in CATEGORIES, "task.categories", name, f"use some of {names}")


class Dialogues:
    """Training and held-out dialogues."""

    rewards: Literal["continuous"] = "continuous"
    scorer = Episode.scorer
    reported = ("official",)
    """Scores besides the reward, for an evaluation."""

    def __init__(
        self, settings: Bfcl, training: Sequence[Dialogue], heldout: Sequence[Dialogue]
    ) -> None:
        self.settings = settings
        self._training, self._heldout = training, heldout
        self._dialogues = {each.id: each for each in (*training, *heldout)}
        self.notices = list(_notices(training, heldout))

    def training(self) -> Sequence[Prompt]:
        return [each.prompt for each in self._training]

    def heldout(self) -> Sequence[Prompt]:
        return [each.prompt for each in self._heldout]

    def episode(self, prompt: Prompt) -> Episode:
        knobs = self.settings
        return Episode(
            self._dialogues[prompt.id],
            knobs.steps,
            knobs.output,
            knobs.abstention,
            knobs.spare_calls,
        )


def read_dialogues(settings: Bfcl, path: str, key: str) -> list[Dialogue]:
    """The dialogues of a prepared file, of the categories in the settings."""
    if not Path(path).exists():
        raise MissingData(f"{key} = {path!r}: no such file; {prepared.remedy('bfcl', path)}")
    dialogues: dict[str, Dialogue] = {}
    for number, row in enumerate(read_rows(path, key), start=1):
        try:
            dialogue = Dialogue.read(row["reward_model"]["ground_truth"])
        except (KeyError, TypeError, Malformed) as error:
            fault = str(error) if isinstance(error, Malformed) else "no reward_model.ground_truth"
            raise MetisError(
                f"{key} = {path!r}, row {number}: not as `metis prepare bfcl` writes it ({fault}); "
                "prepare it again"
            ) from None
        if dialogue.id in dialogues:
            raise MetisError(f"{key} = {path!r}, row {number}: a second {dialogue.id!r}")
        if not settings.categories or dialogue.category in settings.categories:
            dialogues[dialogue.id] = dialogue
    return list(dialogues.values())


def _notices(training: Sequence[Dialogue], heldout: Sequence[Dialogue]) -> Iterator[str]:
    """Notices about the split."""
    trained = {each.number for each in training}
    if both := sum(each.number in trained for each in heldout):
        yield (
            f"{both:,} of the {len(heldout):,} held-out dialogues are trained on in another "
            "category, so that their rewards are too good; `metis prepare bfcl split=dialogue` "
            "keeps the variants of a dialogue together"
        )


def build(settings: Bfcl, seed: int) -> Dialogues:
    """The task for a run's seed; refused without its APIs, before a model is loaded."""
    apis()
    dialogues, others = read_dialogues(settings, settings.path, "task.path"), None
    if settings.heldout_path:
        others = read_dialogues(settings, settings.heldout_path, "task.heldout_path")
    training, heldout = divided(
        dialogues, others, settings.heldout, seed, lambda dialogue: dialogue.id, "dialogues"
    )
    return Dialogues(settings, training, heldout)
