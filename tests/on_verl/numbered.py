"""verl's agent loop of one turn, but each rollout of a prompt has a seed: its number.

So what is said does not depend on the order in which servers are asked. Imported in every process
by VERL_USE_EXTERNAL_MODULES.
"""

from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, register
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

NAME = "numbered"


@register(NAME)
class Numbered(SingleTurnAgentLoop):
    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        seeded = {**sampling_params, "seed": row["session_id"]}
        return await super().run(seeded, **row)
