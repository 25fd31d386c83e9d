"""The paper's judge: the policy writes a variance, and REINFORCE trains it on its own reward.

METIS, Sec. 4.1 and appendices A.1, B.3: one user message with K exemplars, a sampled reply, the
number in its last box (Eq. 7), R = 1 - (4 (v_hat - v))^2 (Eq. 8), and
L_judge = -mean (R - b) log pi(reply), with b <- alpha b + (1 - alpha) mean R, from 0 (Eq. 9).
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from metis.core import (
    Complete,
    Completion,
    Group,
    Judgment,
    Plan,
    Progress,
    Prompt,
    Sampling,
    complete,
)
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.judges.memory import Memory, Pair, exemplars, recent, split_exemplars
from metis.curricula.judges.prompt import single
from metis.curricula.judges.protocol import (
    SECTION,
    Failure,
    Judge,
    Lesson,
    Prediction,
    Predictions,
)
from metis.curricula.judges.scale import GRID
from metis.errors import require, require_at_least
from metis.signal import VARIANCE_MAX, judge_reward
from metis.text import OPENING, last_box

MEMORY = 1
"""Steps of the calibration memory."""

LEAST_SPREAD = 0.1
"""Minimum of the standard deviation that bounds a failure's advantage."""


@dataclass(frozen=True)
class WrittenPredictions(Predictions):
    """Predictions, with the sampled replies to train on."""

    completions: Sequence[Completion] = ()


@dataclass
class Reason(Stateful, Judge[WrittenPredictions]):
    """The policy writes its prediction; method and defaults are the paper's.

    examples     K: exemplars from the calibration memory in the judge prompt (3)
    weight       lambda of Eq. 10 (0.01)
    ema          alpha of the reward baseline (0.95)
    failures     a reply without a prediction: `zero` takes v_hat = 0, in the ranking and in its
                 reward (paper) · `last` ranks it below all others, with reward 0
    max_tokens   maximum tokens of a reply
    temperature  of replies
    """

    examples: int = 3
    weight: float = 0.01
    ema: float = 0.95
    failures: Literal["zero", "last"] = "zero"
    max_tokens: int = 512
    temperature: float = 1.0

    memory: Memory = field(init=False, default_factory=Memory)  # 1
    baseline: float = field(init=False, default=0.0)  # 1
    """b of Eq. 9."""

    def __post_init__(self) -> None:
        require_at_least(self, {"examples": 0, "max_tokens": 1}, SECTION)
        require(0 <= self.ema < 1, f"{SECTION}ema", self.ema, "use 0 to below 1")
        valid = math.isfinite(self.weight) and self.weight >= 0
        require(valid, f"{SECTION}weight", self.weight, "use 0 or more")
        valid = math.isfinite(self.temperature) and self.temperature > 0
        remedy = "use a number above 0; the judge's loss needs sampled judgments"
        require(valid, f"{SECTION}temperature", self.temperature, remedy)

    @property
    def sampling(self) -> Sampling:
        return Sampling(max_tokens=self.max_tokens, temperature=self.temperature)

    def needs(self, batch: int) -> Needs:
        return Needs(frozenset({Complete}), sampling=self.sampling)

    def predict(
        self, candidates: Sequence[Prompt], batch: int, pool: Pool, progress: Progress
    ) -> Plan[WrittenPredictions]:
        self.memory.forget(progress.step, MEMORY)
        pairs = recent(self.memory.pairs, progress.step, MEMORY)
        picked = exemplars(pairs, self.examples, candidates, batch, pool, progress.rng("exemplars"))
        shown, judged = split_exemplars(picked, candidates, pool)
        chats = single([prompt.text for prompt in judged], shown)
        completions = yield from complete(chats, self.sampling)  # 3
        predictions = [self._read(*each) for each in zip(judged, completions, strict=True)]
        return WrittenPredictions(predictions, shown, completions=completions)

    def _read(self, prompt: Prompt, completion: Completion) -> Prediction:
        asked = bool(completion.trajectory.loss_mask.any())
        result = parse_reply(completion) if asked else Failure.DOES_NOT_FIT
        if not isinstance(result, Failure):
            return Prediction(prompt, result, result, reply=completion.text)
        score = 0.0 if self.failures == "zero" else None
        return Prediction(prompt, None, score, result, completion.text)

    def learn(
        self,
        predictions: WrittenPredictions,
        groups: Sequence[Group],
        pool: Pool,
        progress: Progress,
    ) -> Lesson:
        outcome = {pair.prompt: pair for pair in self.memory.add(groups, progress.step)}
        judged = [
            (prediction, completion, outcome[prediction.prompt.id])
            for prediction, completion in zip(
                predictions.candidates, predictions.completions, strict=True
            )
            if prediction.prompt.id in outcome and prediction.failure is not Failure.DOES_NOT_FIT
        ]
        metrics = written_metrics(predictions.candidates)
        if not judged:
            return Lesson(metrics=metrics)
        rewards = [self._reward(prediction, pair) for prediction, _, pair in judged]
        mean, spread = float(np.mean(rewards)), max(float(np.std(rewards)), LEAST_SPREAD)
        rows = []
        for (prediction, completion, _), reward in zip(judged, rewards, strict=True):
            advantage = reward - self.baseline
            if prediction.failure is not None and self.failures == "last":
                advantage = max(advantage, -spread)  # so that failures do not dominate the step
            rows += self._rows(prediction, completion, advantage)
        metrics |= {"judge/reward": mean, "judge/baseline": self.baseline}
        self.baseline = self.ema * self.baseline + (1 - self.ema) * mean
        return Lesson(rows, metrics)

    def _reward(self, prediction: Prediction, pair: Pair) -> float:
        """Eq. 8. The paper defines none for a failure, but takes its v_hat as 0."""
        if prediction.v_hat is not None:
            return judge_reward(prediction.v_hat, pair.v)
        return judge_reward(0.0, pair.v) if self.failures == "zero" else 0.0

    def _rows(
        self, prediction: Prediction, completion: Completion, advantage: float
    ) -> list[Judgment]:
        """One row of Eq. 9, with the mean over the tokens of the reply."""
        trajectory = completion.trajectory
        weight = self.weight / max(1, int(trajectory.loss_mask.sum()))
        row = Judgment(
            prediction.prompt, trajectory, advantage, weight, temperature=self.temperature
        )
        return [row] if weight else []


def written_metrics(predictions: Sequence[Prediction]) -> dict[str, float]:
    """The share of predictions at the largest variance, and of those not on the list."""
    values = np.array([each.v_hat for each in predictions if each.v_hat is not None])
    if not values.size:
        return {}
    on_list = np.isclose(values[:, None], GRID, rtol=1e-9, atol=0.0).any(axis=1)
    return {
        "judge/at_maximum": float(np.mean(values >= VARIANCE_MAX)),
        "judge/off_grid": float(np.mean(~on_list)),
    }


def parse_reply(completion: Completion) -> float | Failure:
    """The prediction of a sampled reply; a truncated one is a failure.

    A box in a truncated reply may quote the instruction.
    """
    return Failure.CUT_OFF if completion.finish == "length" else parse_variance(completion.text)


def parse_variance(text: str) -> float | Failure:
    r"""The number in the last balanced \boxed{} of a reply, if in [0, 1/4].

    Any plain decimal in range is valid, on the list or not; a fraction is not a number.
    """
    content = last_box(text)
    if content is None:
        return Failure.CUT_OFF if OPENING in text else Failure.NO_BOX
    number = content.strip()  # more than `float` strips
    if len(content) > 64 or not _NUMBER.fullmatch(number):
        return Failure.NOT_A_NUMBER
    value = float(number) + 0.0  # -0.0 + 0.0 is 0.0
    return value if 0.0 <= value <= VARIANCE_MAX else Failure.OUT_OF_RANGE


_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
