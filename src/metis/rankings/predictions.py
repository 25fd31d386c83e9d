"""The calibration of a readout, and its predictions for all prompts, saved round by round."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from metis.core import Chat, Embed, Group, state
from metis.core.requests import Vectors
from metis.curricula.judges import Readout
from metis.curricula.judges.readout import FittedReadout, Reading
from metis.curricula.judges.regressions import regression
from metis.errors import MetisError
from metis.rankings.plan import RankingPlan
from metis.rankings.prompts import Numbered
from metis.run.folder import Folder, read_log
from metis.surveys.collect import Playable, SurveyFolder, SurveyView, collect
from metis.surveys.facts import PromptOutcome

ROUND = 1024
"""Prompts whose states are read, and whose predictions are saved, at once."""
CALIBRATION = "calibration"
"""The folder of the calibration's rollouts: a survey of its prompts."""
STATE = "readout.state"
DIGITS = 6
"""Decimals of predictions."""


class RankingFolder(Folder):
    """The folder of a ranking: a prediction for each prompt, in the order of the file."""

    LOGS: ClassVar = ("predictions",)

    @property
    def predictions(self) -> Path:
        return self.path / "predictions.jsonl"

    @property
    def outcomes(self) -> list[PromptOutcome]:
        """The outcomes of the calibration."""
        return [PromptOutcome.of(row) for row in read_log(self.path / CALIBRATION, "outcomes")]

    def resume(self, total: int) -> int:
        """The number of predictions saved, in whole rounds; anything after them is truncated."""
        saved = size = length = 0
        with self.predictions.open("rb") as file:
            for count, line in enumerate(file, start=1):
                length += len(line)
                if line.endswith(b"\n") and (count % ROUND == 0 or count == total):
                    saved, size = count, length
        self.cut({"predictions": size})
        return saved


def calibrate(
    plan: RankingPlan,
    described: Mapping[str, Any],
    judge: Readout,
    folder: RankingFolder,
    engine: Callable[[], Playable],
    view: Callable[[str, int], SurveyView],
) -> None:
    """Label the readout with the outcomes of the sample, which is rolled out; or load it."""
    path = folder.path / STATE
    if path.exists():
        judge.load_state_dict(state.load_state(path))
        return
    training, task = plan.config.training, plan.config.task
    assert task is not None
    sampled = {each.row.prompt.id: each for each in plan.scan.sample}
    prompts = sorted((*task.training(), *task.heldout()), key=lambda x: sampled[x.id].number)
    with (
        SurveyFolder.open(folder.path / CALIBRATION, described) as survey,
        view("rollouts", training.group * len(prompts)) as shown,
    ):
        asked = (engine(), prompts, training.group, training.seed)
        outcomes = collect(*asked, survey, shown, training.transcripts)
    groups = [
        Group(prompt, outcome.rewards, failed=outcome.failed)
        for prompt, outcome in zip(prompts, outcomes, strict=True)
    ]
    chats = [sampled[prompt.id].row.chat for prompt in prompts]
    states = [each for part in _rounds(chats) for each in _states(engine(), part, judge)]
    judge.label(states, groups, step=0)
    state.save_state(path, judge.state_dict())


def fitted(plan: RankingPlan, judge: Readout) -> FittedReadout:
    """The readout of the calibration."""
    task = plan.config.task
    assert task is not None
    readout = judge.fit(regression(judge.regression, task.rewards))
    if readout is None:
        raise MetisError(
            "fewer than two prompts of the calibration have two valid rewards and a finite hidden "
            "state: nothing can be predicted from them; see the failures in its transcripts"
        )
    return readout


def predict(
    plan: RankingPlan,
    judge: Readout,
    readout: FittedReadout,
    folder: RankingFolder,
    engine: Callable[[], Playable],
    view: Callable[[str, int], SurveyView],
) -> None:
    """Predict for all prompts that have no prediction yet."""
    total = plan.scan.prompts
    done = folder.resume(total)
    if done == total:
        return
    with view("prompts", total) as shown:
        shown.resume(done)
        for part in _rounds(islice(plan.file.rows(), done, None)):
            readings = readout.read(_states(engine(), [each.row.chat for each in part], judge))
            folder.append("predictions", map(_row, part, readings))
            done += len(part)
            shown.save(done)


def _states(engine: Playable, chats: Sequence[Chat], judge: Readout) -> Vectors:
    return engine.answer(Embed(chats, [judge.layer]))


def _rounds(items: Iterable[Any]) -> Iterator[list[Any]]:
    waiting = iter(items)
    while part := list(islice(waiting, ROUND)):
        yield part


def _row(prompt: Numbered, reading: Reading | None) -> dict[str, Any]:
    rate = reading and reading.pass_rate
    return {
        "prompt": prompt.row.prompt.id,
        "row": prompt.number,
        "score": None if reading is None else round(reading.variance, DIGITS),
        "pass_rate": None if rate is None else round(rate, DIGITS),
    }
