"""The judge by log-probabilities: a distribution over the allowed answers, trained by log loss.

P = softmax(log-probabilities of the answers + offsets), v_hat its expected variance: nothing is
decoded, and no reply can be invalid. The loss is the cross-entropy to the two-hot outcome y. Its
gradient is sum_g (P_g - y_g) grad log P_g, so every answer is a row with the constant advantage
y_g - P_g. Cross-entropy, a proper scoring rule, may be trained off-policy: outcomes of the last
steps are replayed.

The offsets are outside the network, and move towards the mean outcome. Otherwise a judge would
first learn the marginal distribution of answers: a large gradient through the prefix shared by all
judge prompts, which says nothing about any of them.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metis.core import (
    Chat,
    Continuation,
    Group,
    Judgment,
    Plan,
    Progress,
    Prompt,
    Score,
    score,
)
from metis.core.needs import Needs
from metis.core.pool import Pool, Rewards
from metis.core.state import Stateful
from metis.curricula.judges.memory import (
    Memory,
    Pair,
    anchored,
    exemplars,
    quantile,
    recent,
    replayed,
    split_exemplars,
)
from metis.curricula.judges.prompt import turns
from metis.curricula.judges.protocol import (
    SECTION,
    Failure,
    Judge,
    Lesson,
    Prediction,
    Predictions,
)
from metis.curricula.judges.scale import ATTEMPTS, PASSES, VARIANCE, AnswerScale
from metis.errors import require, require_at_least
from metis.signal import VARIANCE_MAX, softmax

Floats = NDArray[np.float64]

MEMORY = 4
"""Steps of the calibration memory, and of the variances used for ranks."""

KEPT_STEPS = 8
"""Steps whose outcomes are replayed, and fit the offsets."""

REPLAY = 64
"""Minimum number of replayed outcomes by default."""

RATE, LARGEST = 0.5, 8.0
"""Learning rate and maximum absolute value of the offsets."""


class ScoredPrompt(NamedTuple):
    """One judge prompt, with the log-probabilities of the answers, without offsets."""

    prompt: Prompt
    chat: Chat
    logprobs: tuple[float, ...]
    distribution: Floats
    v_hat: float
    failure: Failure | None


@dataclass(frozen=True)
class ScoredPredictions(Predictions):
    """Predictions by log-probabilities, with scores of replayed outcomes."""

    scale: AnswerScale = VARIANCE
    offsets: tuple[float, ...] = ()
    readings: Sequence[ScoredPrompt] = ()
    """The candidates in order, then the replayed outcomes."""
    again: Sequence[Pair] = ()


class LabelledPrompt(NamedTuple):
    """A scored prompt with its outcome: v as used in Eq. 8, and as a point of the scale."""

    reading: ScoredPrompt
    target: float
    point: float
    key: str
    """The key of a replayed judgment; empty for this step's."""


Labels = tuple[int, Floats, Floats]
"""A step, the log-probabilities of its judgments' answers, and their targets (one row each)."""


@dataclass
class Direct(Stateful, Judge[ScoredPredictions]):
    """The expected variance under the log-probabilities of the answers; trained.

    scale     answers: the reward `variance` from the paper's list · `passes` out of eight attempts,
              one digit, for binary rewards (others use the variance)
    examples  K: exemplars from the calibration memory in the judge prompt (3)
    replay    replayed outcomes of the last 8 steps, judged and trained on again; by default as many
              as the batch, at least 64
    share     bound on the judge's gradient norm, as a share of the policy's; 0 is no bound
    train     share of judgments, including replayed ones, that an update trains on, sampled
              uniformly; on verl each repeats the whole judge prompt
    """

    scale: Literal["variance", "passes"] = "variance"
    examples: int = 3
    replay: int | None = None
    share: float = 0.25
    train: float = 1.0

    memory: Memory = field(init=False, default_factory=Memory)
    labels: list[Labels] = field(init=False, default_factory=list)
    offsets: list[float] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        require_at_least(self, {"examples": 0}, SECTION)
        replay, share, train = self.replay, self.share, self.train
        require(replay is None or replay >= 0, f"{SECTION}replay", replay, "use at least 0")
        valid = math.isfinite(share) and share >= 0
        require(valid, f"{SECTION}share", share, "use 0 or more")
        require(0 < train <= 1, f"{SECTION}train", train, "use a share above 0, at most 1")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.labels = [(step, logprobs, targets) for step, logprobs, targets in self.labels]

    def needs(self, batch: int) -> Needs:
        choices = PASSES.choices if self.scale == PASSES.name else VARIANCE.choices
        return Needs(frozenset({Score}), choices=choices, replay=self._replay(batch))

    def _replay(self, batch: int) -> int:
        return max(REPLAY, batch) if self.replay is None else self.replay

    def predict(
        self, candidates: Sequence[Prompt], batch: int, pool: Pool, progress: Progress
    ) -> Plan[ScoredPredictions]:
        self.memory.forget(progress.step, KEPT_STEPS)
        self.labels = [label for label in self.labels if label[0] > progress.step - KEPT_STEPS]
        scale = PASSES if (self.scale, pool.rewards) == ("passes", "binary") else VARIANCE
        outcome = OutcomeScale(
            scale, pool.rewards, recent(self.memory.pairs, progress.step, MEMORY)
        )
        memory = anchored(self.memory.pairs, progress.step, MEMORY)
        rng = progress.rng("exemplars")
        picked = exemplars(memory, self.examples, candidates, batch, pool, rng, outcome.point)
        rng.shuffle(picked)
        shown, judged = split_exemplars(picked, candidates, pool, outcome.point)
        seen = {each.prompt.text for each in shown} | {prompt.text for prompt in judged}
        again = self._again(batch, seen, pool, progress)
        prompts = [*judged, *(pool[pair.prompt] for pair in again)]
        chats = turns([prompt.text for prompt in prompts], shown, scale)
        rows = yield from score(chats, scale.choices)  # 3
        offsets = tuple(self.offsets) or (0.0,) * len(scale.choices)
        readings = list(_read(prompts, chats, rows, offsets, scale))
        predictions = [_predicted(reading, scale) for reading in readings[: len(judged)]]
        metrics = read_metrics(readings[: len(judged)], scale)
        return ScoredPredictions(predictions, shown, metrics, scale, offsets, readings, again)

    def _again(self, batch: int, seen: set[str], pool: Pool, progress: Progress) -> list[Pair]:
        """Outcomes of the last steps to replay, except of the texts seen in this step."""
        earlier = recent(self.memory.pairs, progress.step, KEPT_STEPS)
        avoid = {pair.prompt for pair in earlier if pool[pair.prompt].text in seen}
        return replayed(earlier, self._replay(batch), avoid, progress.rng("replay"))

    def learn(
        self,
        predictions: ScoredPredictions,
        groups: Sequence[Group],
        pool: Pool,
        progress: Progress,
    ) -> Lesson:
        new = self.memory.add(groups, progress.step)
        outcome = OutcomeScale(
            predictions.scale, pool.rewards, recent(self.memory.pairs, progress.step, MEMORY)
        )
        count = len(predictions.candidates)
        fresh = _labelled(predictions.readings[:count], new, outcome)
        again = _labelled(predictions.readings[count:], predictions.again, outcome, again=True)
        rows = self._rows([*fresh, *again], predictions)
        metrics = _loss_metrics(fresh, again, predictions.scale)
        self._move_offsets(fresh, predictions.scale, progress.step)
        targets = {item.reading.prompt.id: item.target for item in fresh}
        drawn = subsample_judgments(rows, self.train, progress.rng("train"))
        return Lesson(drawn, metrics, self.share, targets)

    def _rows(
        self, labelled: Sequence[LabelledPrompt], predictions: ScoredPredictions
    ) -> list[Judgment]:
        """One row per answer of a judgment; the advantages of a judgment sum to zero."""
        choices, offsets = predictions.scale.choices, predictions.offsets
        return [
            Judgment(
                reading.prompt,
                Continuation(reading.chat, text, logprob, offset),
                advantage,
                clip=True,
                key=key,
            )
            for reading, _, point, key in labelled
            if reading.failure is None
            for text, logprob, offset, advantage in zip(
                choices,
                reading.logprobs,
                offsets,
                (predictions.scale.two_hot(point) - reading.distribution).tolist(),
                strict=True,
            )
        ]

    def _move_offsets(self, fresh: Sequence[LabelledPrompt], scale: AnswerScale, step: int) -> None:
        usable = [item for item in fresh if item.reading.failure is None]
        if usable:
            logprobs = np.array([item.reading.logprobs for item in usable])
            targets = np.stack([scale.two_hot(item.point) for item in usable])
            self.labels.append((step, logprobs, targets))
        self.offsets = updated_offsets(self.offsets, self.labels)


class OutcomeScale(NamedTuple):
    """Maps a group's outcome to the judge's target: a variance, and a point of its scale.

    Continuous rewards have most variances near 0, where all predictions would tie; the target is
    then their rank among recent ones.
    """

    scale: AnswerScale
    rewards: Rewards
    recent: Sequence[Pair]

    def variance(self, v: float) -> float:
        """The v of Eq. 8: the realised variance, or its rank scaled to the same range."""
        if self.rewards == "binary":
            return v
        return VARIANCE_MAX * quantile(v, [pair.v for pair in self.recent])

    def point(self, pair: Pair) -> float:
        """An outcome as a point on the judge's scale."""
        return ATTEMPTS * pair.mean if self.scale is PASSES else self.variance(pair.v)


def _read(
    prompts: Sequence[Prompt],
    chats: Sequence[Chat],
    rows: Sequence[Sequence[float]],
    offsets: tuple[float, ...],
    scale: AnswerScale,
) -> Iterator[ScoredPrompt]:
    """Score prompts; non-finite log-probabilities and prompts that are too long are failures."""
    table = np.array(rows, dtype=np.float64).reshape(-1, len(offsets))
    highest = table.max(axis=1)
    distributions = softmax(np.where(np.isfinite(highest)[:, None], table + offsets, 0.0))
    expected = (distributions @ np.array(scale.values)).tolist()
    for i, (prompt, chat) in enumerate(zip(prompts, chats, strict=True)):
        failure = None
        if not math.isfinite(highest[i]):
            unasked = highest[i] == -math.inf
            failure = Failure.DOES_NOT_FIT if unasked else Failure.NOT_A_NUMBER
        yield ScoredPrompt(prompt, chat, tuple(rows[i]), distributions[i], expected[i], failure)


def _predicted(reading: ScoredPrompt, scale: AnswerScale) -> Prediction:
    """The expected variance over the answers."""
    if reading.failure is not None:
        return Prediction(reading.prompt, None, None, reading.failure)
    named = dict(zip(scale.labels, reading.distribution.tolist(), strict=True))
    return Prediction(reading.prompt, reading.v_hat, reading.v_hat, distribution=named)


def _labelled(
    readings: Sequence[ScoredPrompt],
    outcomes: Sequence[Pair],
    outcome: OutcomeScale,
    again: bool = False,
) -> list[LabelledPrompt]:
    """Scored prompts with their outcomes, where they have one."""
    pair_of = {pair.prompt: pair for pair in outcomes}
    return [
        LabelledPrompt(
            reading,
            outcome.variance(pair.v),
            outcome.point(pair),
            f"step {pair.step}" if again else "",
        )
        for reading in readings
        if (pair := pair_of.get(reading.prompt.id)) is not None
    ]


def read_metrics(readings: Sequence[ScoredPrompt], scale: AnswerScale) -> dict[str, float]:
    """Mean entropy, and the share of prompts whose likeliest answer is the largest variance."""
    usable = [reading.distribution for reading in readings if reading.failure is None]
    if not usable:
        return {}
    table = np.stack(usable)
    entropies = -np.sum(table * np.log(np.maximum(table, 1e-300)), axis=1)
    likeliest = np.array(scale.values)[table.argmax(axis=1)]
    return {
        "judge/entropy": float(entropies.mean()),
        "judge/at_maximum": float(np.mean(likeliest >= VARIANCE_MAX)),
    }


def _loss_metrics(
    fresh: Sequence[LabelledPrompt], again: Sequence[LabelledPrompt], scale: AnswerScale
) -> dict[str, float]:
    """The expected Eq. 8 under P, and the KL divergence from the target."""
    asked = [item for item in fresh if item.reading.failure is not Failure.DOES_NOT_FIT]
    rewards = [
        float(
            item.reading.distribution
            @ (1.0 - np.square(4.0 * (np.array(scale.values) - item.target)))
        )
        if item.reading.failure is None
        else 0.0
        for item in asked
    ]
    values = [
        float(np.sum(target[on] * np.log(target[on] / np.maximum(distribution[on], 1e-12))))
        for item in [*fresh, *again]
        if item.reading.failure is None
        for distribution, target in [(item.reading.distribution, scale.two_hot(item.point))]
        for on in [target > 0]
    ]
    metrics = {"judge/reward": float(np.mean(rewards))} if rewards else {}
    return metrics | ({"loss/judge": float(np.mean(values))} if values else {})


def subsample_judgments(
    judgments: list[Judgment], train: float, rng: random.Random
) -> list[Judgment]:
    """Sample whole judgments uniformly, at least one: the mean loss stays unbiased."""
    if train == 1:
        return judgments
    keys = list(dict.fromkeys((row.prompt.id, row.key) for row in judgments))
    kept = set(rng.sample(keys, min(len(keys), max(1, round(train * len(keys))))))
    return [row for row in judgments if (row.prompt.id, row.key) in kept]


def updated_offsets(offsets: Sequence[float], steps: Sequence[Labels]) -> list[float]:
    """b += rate (log mean y - log mean P) over the judgments of some steps, smoothed by one."""
    if not steps:
        return list(offsets)
    logprobs, targets = (np.concatenate([step[i] for step in steps]) for i in (1, 2))
    b = np.array(offsets or [0.0] * logprobs.shape[1])
    epsilon = 1.0 / len(logprobs)
    predicted = softmax(logprobs + b).mean(axis=0)
    b = b + RATE * (np.log(targets.mean(axis=0) + epsilon) - np.log(predicted + epsilon))
    bounded: list[float] = np.clip(b - b.mean(), -LARGEST, LARGEST).tolist()
    return bounded
