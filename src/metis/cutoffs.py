"""A word to the person who watches when most answers end at the limit of their length."""

from collections import deque
from collections.abc import Mapping

STEPS = 10
"""In a row that a judgment of it takes."""


class CutOffs:
    """Watches the answers of the last steps; `limit` is the setting that ends them."""

    def __init__(self, limit: str) -> None:
        self.limit = limit
        self.recent: deque[tuple[int, int]] = deque(maxlen=STEPS)
        self.told = False

    def notices(self, counts: Mapping[str, int]) -> list[str]:
        """What there is to say after a step, which is said once."""
        self.recent.append((counts["rollout/cut_off"], counts["rollout/generated"]))
        cut, generated = map(sum, zip(*self.recent, strict=True))
        if self.told or len(self.recent) < STEPS or 2 * cut <= generated:
            return []
        self.told = True
        return [
            f"{cut / generated:.0%} of the answers of the last {STEPS} steps ended at "
            f"{self.limit}: a reward is for what was written by then; allow more, or ask for less"
        ]
