"""A dialogue: its own environment plays the user."""

import verifiers.v1 as vf
from metis_sums import SumsTaskset


class DialogueEnv(vf.SingleAgentEnv):
    async def run(self, task, agents):
        async with agents.agent.interaction(task) as interaction:
            await interaction.turn("Are you sure?")


class DialogueTaskset(SumsTaskset):
    pass


__all__ = ["DialogueEnv", "DialogueTaskset"]
