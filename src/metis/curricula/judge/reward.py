"""R_judge, the reward of a judgment: the paper's of a variance (METIS, Eq. 8), or MASA's.

MASA (Kim et al., arXiv 2510.03259) rewards a predicted pass rate by 0.01^|p_hat - p|.
"""

import numpy as np
from numpy.typing import NDArray

from metis.curricula.judge.judgment import Scored
from metis.curricula.judge.settings import Judge
from metis.signal import judge_reward

MASA = 0.01


def reward(judge: Judge, item: Scored, failures: str) -> float:
    """The reward of a verdict, expected over the answers in `direct`."""
    verdict, target = item.verdict, item.target
    if verdict.sampled is not None:
        return float(rewards(judge, item)[verdict.sampled])
    if verdict.distribution is not None:
        return float(verdict.distribution @ rewards(judge, item))
    if verdict.v_hat is not None:
        return judge_reward(verdict.v_hat, target)
    return judge_reward(0.0, target) if failures == "zero" else 0.0


def rewards(judge: Judge, item: Scored) -> NDArray[np.float64]:
    """The reward of every answer."""
    scale = item.verdict.scale
    if judge.reward == "masa" and scale.rates:
        return np.asarray(MASA ** np.abs(np.array(scale.rates) - scale.rate(item.point)))
    return 1.0 - np.square(4.0 * (np.array(scale.values) - item.target))
