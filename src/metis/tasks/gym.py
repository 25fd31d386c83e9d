"""Any data set of reasoning-gym, by its name and configuration.

Its scores are not all 0 or 1, and some give a crumb to a wrong answer (countdown: 0.01); they are
rescaled so that an empty answer earns 0 and the right one 1.
"""

import random
from dataclasses import dataclass, field
from typing import Any

from metis.core import Message, Prompt
from metis.core.pool import Rewards
from metis.errors import MetisError, pip_install, require_at_least
from metis.tasks.base import SingleTurn, Split


@dataclass(frozen=True)
class Gym:
    """Settings of a reasoning-gym task.

    dataset      its name, such as chain_sum or countdown
    config       settings of the data set
    prompts      number of training problems
    heldout      number of held-out problems, without overlap
    rewards      `binary`: 1 for a full score only; `continuous` keeps partial credit
    instruction  text after the question
    """

    dataset: str = "chain_sum"
    config: dict[str, Any] = field(default_factory=dict)
    prompts: int = 1000
    heldout: int = 200
    rewards: Rewards = "binary"
    instruction: str = "Give your answer between <answer> and </answer>."

    def __post_init__(self) -> None:
        require_at_least(self, {"prompts": 1, "heldout": 1}, "task.")


class GymTask(Split):
    """A reasoning-gym data set, split into training and held-out problems."""

    def __init__(self, settings: Gym, seed: int) -> None:
        self.settings = settings
        self.rewards = settings.rewards
        self.scorer = f"{settings.dataset} of reasoning-gym, {settings.rewards}"
        self.source = _create(settings, seed)
        self.items: dict[str, Any] = {}
        texts: set[str] = set()
        for row, item in enumerate(self.source):
            if item["question"] not in texts:
                texts.add(item["question"])
                self.items[f"{settings.dataset}:{row}"] = item
        wanted = settings.prompts + settings.heldout
        if len(self.items) < wanted:
            raise MetisError(
                f"task.prompts + task.heldout = {wanted}: {settings.dataset} with this config made "
                f"only {len(self.items)} different problems; use fewer prompts or a richer config"
            )
        prompts = [self._prompt(name) for name in list(self.items)[:wanted]]
        random.Random(seed).shuffle(prompts)
        self._heldout, self._training = prompts[: settings.heldout], prompts[settings.heldout :]

    def _prompt(self, name: str) -> Prompt:
        item = self.items[name]
        difficulty = item["metadata"].get("difficulty")
        label = ",".join(f"{k}={v}" for k, v in difficulty.items()) if difficulty else ""
        return Prompt(name, item["question"], label)

    def episode(self, prompt: Prompt) -> SingleTurn:
        text = f"{prompt.text}\n{self.settings.instruction}".strip()
        chat: list[Message] = [{"role": "user", "content": text}]
        item = self.items[prompt.id]
        answer = "" if item["answer"] is None else str(item["answer"])
        return SingleTurn(chat, lambda reply: self._score(reply, item), answer)

    def _score(self, reply: str, item: Any) -> float:
        answer = reply.rpartition("<answer>")[2].partition("</answer>")[0].strip()
        score = self._raw(answer, item)
        if self.rewards == "binary":
            return float(score >= 1.0)
        floor = max(self._raw(wrong, item) for wrong in (None, "", "no idea"))
        return min(1.0, max(0.0, (score - floor) / (1.0 - floor))) if floor < 1.0 else 0.0

    def _raw(self, answer: str | None, item: Any) -> float:
        """The data set's own score; what its scorer chokes on is a wrong answer."""
        try:
            return float(self.source.score_answer(answer, item))
        except Exception:
            return 0.0


def _create(settings: Gym, seed: int) -> Any:
    try:
        import reasoning_gym
    except ImportError:
        raise MetisError(f"task = 'gym' needs reasoning-gym: {pip_install('gym')}") from None
    size = 2 * (settings.prompts + settings.heldout)
    try:
        return reasoning_gym.create_dataset(
            settings.dataset, size=size, seed=seed, **settings.config
        )
    except (ValueError, TypeError, AssertionError) as error:
        raise MetisError(
            f"task.dataset = {settings.dataset!r} with task.config = {settings.config}: {error}"
        ) from None


def build(settings: Gym, seed: int) -> GymTask:
    """The task for a run's seed."""
    return GymTask(settings, seed)
