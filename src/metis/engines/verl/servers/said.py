"""Messages of a rollout on verl: handed on by METIS's agent loop, else decoded.

verl drops a rollout that raises. So where METIS sees the error, in its agent loop and in its reward
manager, the rollout is scored NaN instead, with the reason beside it.
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
"""The extra field of verl with the messages, as JSON, since any text gets through its queue."""

FAILURE = "metis_failure"
"""The reason beside the reward of a rollout that failed."""

LOST = "verl dropped it: the log of its agent loops has the reason"

REPORTED = "reward/"
"""Prefix of what METIS's reward functions report besides the score."""

Decode = Callable[[Sequence[int]], str]


def handed_on(asked: Chat, said: Chat) -> dict[str, str]:
    """The extra field of a rollout."""
    return {TRANSCRIPT: json.dumps([list(map(dict, part)) for part in (asked, said)], default=str)}


def failed(error: Exception) -> dict[str, Any]:
    """What verl gets for the reward of a rollout that failed."""
    return {"score": math.nan, "acc": math.nan, FAILURE: located(error)}


def reward_info(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the reward of a rollout consists of, in verl's format."""
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
    """The transcript of a rollout: as handed on, else these."""
    if handed := extra.get(TRANSCRIPT):
        asked, turns = json.loads(handed)
    if math.isfinite(reward):
        return Transcript(asked, turns, reward, report, tokens, truncated)
    why = str(reward_info(extra).get(FAILURE) or f"its reward is {reward}")
    return Transcript(asked, turns, None, report, tokens, truncated, why)


def decoded(tokens: Sequence[int], mask: Sequence[int], decode: Decode) -> list[Message]:
    """The policy's turns and, as a tool's, what is between them."""
    said: list[Message] = []
    parts = itertools.groupby(zip(tokens, mask, strict=True), key=lambda each: bool(each[1]))
    for own, part in parts:
        text = decode([token for token, _ in part])
        said.append({"role": "assistant" if own else "tool", "content": text})
    return said
