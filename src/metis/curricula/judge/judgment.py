"""A judgment from asking to deciding: the plan that asks, and why each candidate was chosen.

Algorithm 1, line 3. In `direct` the prediction is the expected variance under the distribution over
the allowed answers, P = softmax(log-probabilities + offsets).
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metis.core import Chat, Completion, Decision, Plan, Prompt, complete, score
from metis.curricula.judge.memory import Pair
from metis.curricula.judge.reply import Failure, parse
from metis.curricula.judge.scale import VARIANCE, Scale
from metis.curricula.judge.settings import Judge
from metis.curricula.judge.target import Target
from metis.curricula.selection import Choice
from metis.signal import softmax


@dataclass(frozen=True, eq=False)
class Verdict:
    """The policy's prediction for one candidate; `v_hat` is None when it said nothing usable."""

    prompt: Prompt
    chat: Chat
    v_hat: float | None
    failure: Failure | None = None
    completion: Completion | None = None
    likeliest: float | None = None
    """The variance of the single answer the judge would give."""
    scale: Scale = VARIANCE
    logprobs: tuple[float, ...] = ()
    """Of the answers of the scale, in `direct` mode, without offsets."""
    offsets: tuple[float, ...] = ()
    distribution: NDArray[np.float64] | None = None
    """Both as probabilities that add up to one."""
    sampled: int | None = None
    """Position in the scale of the answer drawn for REINFORCE in `direct` mode."""

    @property
    def named(self) -> dict[str, float] | None:
        """The distribution by answer."""
        if self.distribution is None:
            return None
        return dict(zip(self.scale.labels, self.distribution.tolist(), strict=True))


class Scored(NamedTuple):
    """A verdict beside what happened: v, the target of Eq. 8, and the outcome on the scale."""

    verdict: Verdict
    v: float
    target: float
    point: float
    explored: bool
    key: str = ""
    """Names a judgment of an earlier outcome; that of this step has none."""


def ask(
    judge: Judge,
    scale: Scale,
    offsets: Sequence[float],
    prompts: Sequence[Prompt],
    chats: Sequence[Chat],
    rng: random.Random,
) -> Plan[list[Verdict]]:
    """Algorithm 1, line 3: predict v_hat for every candidate; a readout is asked for nothing."""
    if judge.mode == "readout":
        return [Verdict(*item, None) for item in zip(prompts, chats, strict=True)]
    if judge.mode == "reason":
        completions = yield from complete(chats, judge.sampling)
        return [_read(*item) for item in zip(prompts, chats, completions, strict=True)]
    rows = yield from score(chats, scale.choices)
    draw = rng if judge.loss == "reinforce" else None
    return list(_weigh(scale, tuple(offsets), prompts, chats, rows, draw))


def as_read(
    judge: Judge, verdicts: Sequence[Verdict], scores: Sequence[float | None]
) -> list[Verdict]:
    """The verdicts, which are the readout's scores where it is the judge; none is below 0."""
    if judge.mode != "readout":
        return list(verdicts)
    read = [None if score is None else max(0.0, score) for score in scores]
    return [replace(each, v_hat=v_hat) for each, v_hat in zip(verdicts, read, strict=True)]


def _weigh(
    scale: Scale,
    offsets: tuple[float, ...],
    prompts: Sequence[Prompt],
    chats: Sequence[Chat],
    rows: Sequence[Sequence[float]],
    draw: random.Random | None,
) -> Iterator[Verdict]:
    """The expected value over the choices; log-probabilities that are none give no prediction."""
    table = np.array(rows, dtype=np.float64).reshape(-1, len(scale.choices))
    highest = table.max(axis=1)
    shifts = np.array(offsets or [0.0] * len(scale.choices))
    distributions = softmax(np.where(np.isfinite(highest)[:, None], table + shifts, 0.0))
    expected = (distributions @ np.array(scale.values)).tolist()
    for i, (prompt, chat) in enumerate(zip(prompts, chats, strict=True)):
        if not math.isfinite(highest[i]):
            unasked = highest[i] == -math.inf
            failure = Failure.DOES_NOT_FIT if unasked else Failure.NOT_A_NUMBER
            yield Verdict(prompt, chat, None, failure)
            continue
        row, sampled = distributions[i], None
        if draw is not None:
            sampled = draw.choices(range(len(row)), weights=row.tolist())[0]
        yield Verdict(
            prompt,
            chat,
            expected[i],
            likeliest=scale.values[int(row.argmax())],
            scale=scale,
            logprobs=tuple(rows[i]),
            offsets=offsets,
            distribution=row,
            sampled=sampled,
        )


def _read(prompt: Prompt, chat: Chat, completion: Completion) -> Verdict:
    asked = bool(completion.trajectory.loss_mask.any())
    result = parse(completion) if asked else Failure.DOES_NOT_FIT
    if isinstance(result, Failure):
        return Verdict(prompt, chat, None, failure=result, completion=completion)
    return Verdict(prompt, chat, result, completion=completion, likeliest=result)


def scored(
    verdicts: Sequence[Verdict],
    outcomes: Sequence[Pair],
    target: Target,
    again: bool = False,
) -> list[Scored]:
    """Verdicts beside the outcomes of their prompts, where they have one."""
    pair_of = {pair.prompt: pair for pair in outcomes}
    return [
        Scored(
            verdict,
            pair.v,
            target.variance(pair.v),
            target.point(pair),
            pair.explored,
            f"step {pair.step}" if again else "",
        )
        for verdict in verdicts
        if (pair := pair_of.get(verdict.prompt.id)) is not None
    ]


def decisions(
    verdicts: Sequence[Verdict],
    scores: Sequence[float | None],
    choice: Choice,
    on_trial: bool,
) -> list[Decision]:
    """The score of each candidate, and why it was, or was not, rolled out."""
    reasons = dict.fromkeys(choice.explored, "trial" if on_trial else "explore")
    reasons |= dict.fromkeys(choice.top, "top")
    return [
        Decision(
            verdict.prompt,
            chosen=i in reasons,
            reason=reasons.get(i, "passed over"),
            score=None if verdict.v_hat is None else scores[i],
            failure=verdict.failure,
            propensity=choice.propensities[i],
            reply=verdict.completion.text if verdict.completion else None,
            distribution=verdict.named,
        )
        for i, verdict in enumerate(verdicts)
    ]
