"""The kinds of groups: what their rewards say of a prompt at that moment."""

from collections.abc import Sequence

import numpy as np

from metis.signal import INFORMATIVE, variance

KINDS = ("unsolved", "informative", "solved", "failed")


def kind(rewards: Sequence[float]) -> str:
    """`informative` where rewards differ; else `unsolved` or `solved` by the mean reward.

    Below two rewards nothing can be said: `failed`.
    """
    if len(rewards) < 2:
        return "failed"
    if variance(rewards) > INFORMATIVE:
        return "informative"
    return "unsolved" if np.mean(rewards) < 0.5 else "solved"
