"""The price of a curriculum on verl, in words, for those who start a run."""

from typing import Any

from metis.curricula.judge import Judge
from metis.pool import Rewards


def judge_cost(curriculum: Any, rewards: Rewards) -> str | None:
    """A remark about the rows that a judgment trains, where they are more than one."""
    judge = getattr(curriculum, "judge", None)
    if not isinstance(judge, Judge) or judge.mode != "direct":
        return None
    rows = len(judge.scale_for(rewards).choices)
    replay = getattr(curriculum, "replay", 0)
    more = f", up to {replay} judgments beside those of the batch (curriculum.replay)"
    return (
        f"curriculum.judge.mode = 'direct' trains {rows} rows for a judgment on verl"
        f"{more if replay else ''}; 'reason' trains one: docs/engines.md has the figures"
    )
