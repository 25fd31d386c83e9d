"""The price of a curriculum on verl, in words, for those who start a run."""

from typing import Any

from metis.curricula.judge import Judge
from metis.curricula.judge.scale import PASSES
from metis.pool import Rewards


def judge_cost(curriculum: Any, rewards: Rewards) -> str | None:
    """A remark about the judge prompts that go through the update."""
    judge = getattr(curriculum, "judge", None)
    if not isinstance(judge, Judge) or judge.mode != "direct":
        return None
    single = judge.scale_for(rewards) is PASSES
    rows = "one row" if single else "a row for each place where choices part (scale=passes has one)"
    replay = getattr(curriculum, "replay", 0)
    more = f", up to {replay} judgments beside those of the batch (curriculum.replay)"
    return (
        f"curriculum.judge.mode = 'direct' trains {rows} for a judgment on verl, with its whole "
        f"prompt{more if replay else ''}; curriculum.judge.train=0.25 trains on a quarter of them: "
        "docs/engines.md has the figures"
    )
