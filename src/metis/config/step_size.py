"""The work of a step, from a run's settings and the length of its prompts."""

from typing import Any

from metis.config.config import Config
from metis.core import Embed
from metis.core.needs import needs_of
from metis.curricula.registry import candidates
from metis.engines.local.estimate.step import StepSize

CHARACTERS = 3.5
"""Characters of a token, about."""
OPENING = 30
"""Tokens of a chat template, about."""
ASIDE = 12
"""Tokens beside the problem in a judge prompt, about."""
EXAMPLES = 150
"""Tokens that judge prompts begin with, about: the question and its examples."""
SAMPLE = 64
"""Prompts whose length is looked at."""


def step_size(config: Config) -> StepSize | None:
    """The work of a step, by the length of some prompts; None without data."""
    training, curriculum, pool = config.training, config.curriculum, config.pool()
    if pool is None or config.task is None:
        return None
    prompts = pool.prompts[:SAMPLE]
    chats = [config.task.episode(prompt).chat for prompt in prompts]
    asked = _tokens(sum(len(turn["content"]) for chat in chats for turn in chat), len(chats))
    common = {"opening": OPENING, "question": asked}
    needs = needs_of(curriculum)
    judged = 0
    if hasattr(curriculum, "judge"):
        judged = min(candidates(curriculum, training.batch), len(pool))
    if Embed in needs.requests:
        common |= {"judged": judged, "candidate": OPENING + asked}
    if needs.judges:
        common |= {
            "judged": judged + needs.replay,
            "learnt": _learnt(curriculum, training.batch + needs.replay),
            "shared": EXAMPLES,
            "candidate": ASIDE + _tokens(sum(len(prompt.text) for prompt in prompts), len(prompts)),
            "reply": needs.sampling.max_tokens if needs.sampling else 0,
        }
    return StepSize(training.batch, training.group, **common)


def _learnt(curriculum: Any, judgments: int) -> int:
    """Those of the judgments that are trained on."""
    share = getattr(getattr(curriculum, "judge", None), "train", 1.0)
    return max(1, round(share * judgments))


def _tokens(characters: int, of: int) -> int:
    return round(characters / CHARACTERS / max(1, of))
