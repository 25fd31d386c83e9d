"""Messages of a rollout on verl: from METIS's agent loop, or decoded from the response.

verl drops a rollout that raises. So METIS's agent loop and reward manager catch the error, and give
the rollout the reward NaN with the reason.
"""

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from metis.core import Chat, Message, Transcript
from metis.core.values import Report
from metis.errors import located

TRANSCRIPT = "metis_transcript"
"""verl's extra field with the messages, as JSON text, which its queue keeps unchanged."""

FAILURE = "metis_failure"
"""The field with the reason why a rollout failed."""

LOST = "verl dropped it: the log of its agent loops has the reason"

REPORTED = "reward/"
"""Prefix of the values that METIS's reward functions report besides the score."""

Decode = Callable[[Sequence[int]], str]


def handed_on(asked: Chat, said: Chat) -> dict[str, str]:
    """The extra field with a rollout's messages."""
    return {TRANSCRIPT: json.dumps([list(map(dict, part)) for part in (asked, said)], default=str)}


def failed(error: Exception) -> dict[str, Any]:
    """The reward of a failed rollout, in verl's format."""
    return {"score": math.nan, "acc": math.nan, FAILURE: located(error)}


def reward_info(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """The score and reported values of a rollout, in verl's format."""
    return extra.get("reward_extra_info") or {}


def transcript(
    extra: Mapping[str, Any],
    asked: Chat,
    turns: Sequence[Message],
    reward: float,
    report: Report,
    tokens: int,
    truncated: bool,
) -> Transcript:
    """The transcript of a rollout: from its extra field, or else of these turns."""
    if handed := extra.get(TRANSCRIPT):
        asked, turns = json.loads(handed)
    if math.isfinite(reward):
        return Transcript(asked, turns, reward, report, tokens, truncated)
    why = str(reward_info(extra).get(FAILURE) or f"its reward is {reward}")
    return Transcript(asked, turns, None, report, tokens, truncated, why)


def decoded(tokens: Sequence[int], mask: Sequence[int], decode: Decode) -> list[Message]:
    """The policy's turns, and as a tool's the text between them."""
    said: list[Message] = []
    parts = itertools.groupby(zip(tokens, mask, strict=True), key=lambda each: bool(each[1]))
    for own, part in parts:
        text = decode([token for token, _ in part])
        said.append({"role": "assistant" if own else "tool", "content": text})
    return said
