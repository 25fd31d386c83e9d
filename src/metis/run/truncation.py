"""A notice when most answers of a step end at the limit of their length."""

from collections.abc import Mapping


class Truncations:
    """Watches the answers of every step; `limit` is the setting that ends them."""

    def __init__(self, limit: str) -> None:
        self.limit = limit
        self.told = False

    def notices(self, counts: Mapping[str, int]) -> list[str]:
        """The notice of the first step in which most answers were cut off; later ones have none."""
        cut, generated = counts["rollout/cut_off"], counts["rollout/generated"]
        if self.told or 2 * cut <= generated:
            return []
        self.told = True
        return [
            f"{cut / generated:.0%} of the answers ({cut:,} of {generated:,}) were truncated at "
            f"{self.limit} and are scored as they are: raise it, or ask for shorter answers"
        ]
