"""Self-judgment: how the policy is asked for a prompt's reward variance, and how it is read.

METIS, Sec. 4.1 and appendices A.1, B.3. Two modes: `reason`
samples a reply and parses its last box (Eq. 7); `direct` reads the distribution over the eleven
allowed values from their log-probabilities, with nothing to decode and nothing to fail.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from metis.boxes import OPENING, last_box
from metis.core import Chat, Completion, Sampling
from metis.curricula.judge_prompt import Example, single, turns
from metis.errors import require, require_at_least
from metis.signal import VARIANCE_MAX


class Failure(StrEnum):
    """Why a reply gives no prediction."""

    NO_BOX = "no box"
    NOT_A_NUMBER = "not a number"
    OUT_OF_RANGE = "out of range"
    CUT_OFF = "cut off"
    DOES_NOT_FIT = "does not fit"


@dataclass(frozen=True)
class Judge:
    """The knobs of self-judgment; the defaults are the recommended preset for small models.

    mode       `reason`: free text, then a box (paper) · `direct`: log-probabilities of the values
    layout     `single`: one user message (paper) · `turns`: exemplars as earlier chat turns
    loss       `reinforce` with an EMA baseline (Eq. 9) · `exact`: the expected score, direct only;
               `auto` is `exact` for `direct`
    baseline   where the EMA starts: `zero` (Algorithm 1) · `first_batch`, the first mean reward
    target     what a judgment is scored against: the `variance` · its `rank` in the last steps;
               `auto` is `rank` for continuous rewards, whose variances crowd near 0
    aggregate  log-probability of a judgment: `mean` over its tokens · `sum` (the letter of Eq. 9)
    ratio      `none` (paper) · `clip` the ratio to the policy that judged, as for rollouts
    weight     lambda of Eq. 10; by default 0.01 (paper) for `reason` and 0.1 for `direct`
    """

    mode: Literal["reason", "direct"] = "direct"
    layout: Literal["single", "turns"] = "turns"
    loss: Literal["reinforce", "exact", "auto"] = "auto"
    baseline: Literal["zero", "first_batch"] = "first_batch"
    target: Literal["variance", "rank", "auto"] = "auto"
    aggregate: Literal["mean", "sum"] = "mean"
    ratio: Literal["none", "clip"] = "clip"
    weight: float = None  # type: ignore[assignment]  # filled in below, by mode
    max_tokens: int = 512
    temperature: float = 1.0

    def __post_init__(self) -> None:
        direct = self.mode == "direct"
        if self.loss == "auto":
            object.__setattr__(self, "loss", "exact" if direct else "reinforce")
        if self.weight is None:
            object.__setattr__(self, "weight", 0.1 if direct else 0.01)
        require(
            direct or self.loss == "reinforce",
            "curriculum.judge.loss",
            self.loss,
            "the exact loss needs curriculum.judge.mode=direct; with reason use reinforce",
        )
        require(
            math.isfinite(self.weight) and self.weight >= 0,
            "curriculum.judge.weight",
            self.weight,
            "use 0 or more",
        )
        require_at_least(self, {"max_tokens": 1}, "curriculum.judge.")
        require(
            math.isfinite(self.temperature) and self.temperature > 0,
            "curriculum.judge.temperature",
            self.temperature,
            "use a number above 0; the judge's loss needs sampled judgments",
        )

    @property
    def sampling(self) -> Sampling:
        return Sampling(max_tokens=self.max_tokens, temperature=self.temperature)

    def chats(self, texts: Sequence[str], examples: Sequence[Example]) -> Sequence[Chat]:
        """ctx(x) = [instruction; memory; x] for every candidate, in the layout asked for."""
        return single(texts, examples) if self.layout == "single" else turns(texts, examples)


def parse(completion: Completion) -> float | Failure:
    """The prediction of a sampled reply; one that hit the token limit had not come to its end.

    A box in it may be a quotation of the instruction, which shows one.
    """
    return Failure.CUT_OFF if completion.finish == "length" else parse_variance(completion.text)


def parse_variance(text: str) -> float | Failure:
    r"""The number in the last balanced \boxed{} of a reply, if it is one in [0, 1/4].

    The reply is taken whole: it ends at its end-of-turn token, never at a word in it. Any plain
    decimal in range counts, on the list or not; a fraction is not a number.
    """
    content = last_box(text)
    if content is None:
        return Failure.CUT_OFF if OPENING in text else Failure.NO_BOX
    if len(content) > 64 or not _NUMBER.fullmatch(content.strip()):
        return Failure.NOT_A_NUMBER
    value = float(content) + 0.0  # -0.0 + 0.0 is 0.0
    return value if 0.0 <= value <= VARIANCE_MAX else Failure.OUT_OF_RANGE


_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
