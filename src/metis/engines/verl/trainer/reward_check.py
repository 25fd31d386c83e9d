"""Rewards that are not of the kind that the settings say."""

from metis.core import Batch

FRACTIONS = "some rewards lie between 0 and 1: set trainer.v1.metis.rewards=continuous"


class RewardCheck:
    """Says once that a pool set to binary rewards has others."""

    def __init__(self, kind: str) -> None:
        self.silent = kind != "binary"

    def notices(self, batch: Batch) -> list[str]:
        fractional = any(0 < reward < 1 for group in batch.groups for reward in group.rewards)
        if self.silent or not fractional:
            return []
        self.silent = True
        return [FRACTIONS]
