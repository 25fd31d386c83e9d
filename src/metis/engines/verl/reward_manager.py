"""verl's default reward manager; a rollout whose reward raises is kept as failed."""

import logging
from typing import Any

from verl import DataProto
from verl.experimental.reward_loop.reward_manager import register
from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager

from metis.engines.verl.launch.from_recipe import REWARD_MANAGER
from metis.engines.verl.servers.said import failed

logger = logging.getLogger(__name__)


class RewardManager(NaiveRewardManager):  # type: ignore[misc]
    """Calls any reward function, METIS's or a user's; logs the traceback of an error."""

    async def run_single(self, data: DataProto) -> dict[str, Any]:
        try:
            scored: dict[str, Any] = await super().run_single(data)
            return {**scored, "reward_score": float(scored["reward_score"])}
        except Exception as error:
            logger.warning("a reward raised", exc_info=error)
            reward = failed(error)
            return {"reward_score": reward["score"], "reward_extra_info": reward}


def register_manager() -> None:
    """Register the manager with verl in this process."""
    register(REWARD_MANAGER)(RewardManager)
