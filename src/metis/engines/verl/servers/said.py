"""Messages of a rollout on verl: handed on by METIS's agent loop, else decoded."""

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from metis.core import Chat, Message, Transcript
from metis.core.values import Report

TRANSCRIPT = "metis_transcript"
"""The extra field of verl with the messages, as JSON, since any text gets through its queue."""

LOST = "failed on verl: its agent loop's log has the reason"

Decode = Callable[[Sequence[int]], str]


def handed_on(asked: Chat, said: Chat) -> dict[str, str]:
    """The extra field of a rollout."""
    return {TRANSCRIPT: json.dumps([list(map(dict, part)) for part in (asked, said)], default=str)}


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
    return Transcript(asked, turns, None, report, tokens, truncated, f"its reward is {reward}")


def decoded(tokens: Sequence[int], mask: Sequence[int], decode: Decode) -> list[Message]:
    """The policy's turns and, as a tool's, what is between them."""
    said: list[Message] = []
    parts = itertools.groupby(zip(tokens, mask, strict=True), key=lambda each: bool(each[1]))
    for own, part in parts:
        text = decode([token for token, _ in part])
        said.append({"role": "assistant" if own else "tool", "content": text})
    return said
