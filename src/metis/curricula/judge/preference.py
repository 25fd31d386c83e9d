"""The order in which judged candidates are taken: the judge's, a readout's, or the mean of both.

Candidates are taken by the judge's expected variance. Beside it, or as the judge, a readout is a
regression on the policy's state of a candidate, of the judge's question about it, or both. A
candidate is worth v (1 - mean reward)^harder to a curriculum.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from metis.core import Chat, Embed, Group, Plan, Prompt, embed
from metis.core.needs import Needs
from metis.core.pool import Rewards
from metis.curricula.judge.diagnostics import ranks
from metis.curricula.judge.judgment import Verdict
from metis.curricula.judge.settings import Judge
from metis.curricula.readout import Kind, Readout, States, regression, require_depths
from metis.errors import require, require_at_least

Scores = list[float | None]


@dataclass(frozen=True)
class Preference:
    """The order in which judged candidates are taken; without a readout, the judge's.

    readout  a regression beside the judge: `none` · on the policy's state of the `prompt`, which is
             the probe's · on its state at the end of the `judge` prompt · on `both`; `auto` is
             `both` where the readout is the judge, else `none`
    regression  `logistic`, of the pass rate; binary rewards alone · `ridge`, of the variance
    depths   layers whose states are read, as shares of the network; 1 is the last
    window   steps whose outcomes are the readout's labels
    mix      weight of the readout's rank against the judge's: 0.5 is the mean of both ranks, 1 the
             readout alone; by default 1 where it is the judge, else 0.5
    harder   weight on the harder side: candidates are taken by the expected v (1 - p)^harder, which
             is highest at a pass rate of 1 / (2 + harder); 0 is the variance alone. The v_hat of a
             judge that is a readout is that too
    """

    readout: Literal["none", "prompt", "judge", "both", "auto"] = "auto"
    regression: Kind = "logistic"
    depths: tuple[float, ...] = (2 / 3,)
    window: int = 20
    mix: float = None  # type: ignore[assignment]  # filled in below, by the judge
    harder: float = 0.0

    def __post_init__(self) -> None:
        prefix = "curriculum.preference."
        require_depths(f"{prefix}depths", self.depths)
        require_at_least(self, {"window": 1}, prefix)
        require(self.mix is None or 0 <= self.mix <= 1, f"{prefix}mix", self.mix, "use a share")
        valid = math.isfinite(self.harder) and self.harder >= 0
        require(valid, f"{prefix}harder", self.harder, "use 0 or more")

    def beside(self, judge: Judge) -> "Preference":
        """The preference with this judge, which may be the readout itself."""
        alone, prefix = judge.mode == "readout", "curriculum.preference."
        readout = self.readout
        if readout == "auto":
            readout = "both" if alone else "none"
        require(
            not alone or readout != "none",
            f"{prefix}readout",
            self.readout,
            "curriculum.judge.mode=readout reads the prompt, the judge prompt, or both: use auto",
        )
        mix = self.mix if self.mix is not None else 1.0 if alone else 0.5
        mine = replace(self, readout=readout, mix=mix)
        require(
            not alone or mix == 1,
            f"{prefix}mix",
            mix,
            "with curriculum.judge.mode=readout there is no other judge to mix with: leave it out",
        )
        require(
            not self.harder or judge.counts or (readout != "none" and mine.mix == 1),
            f"{prefix}harder",
            self.harder,
            "a variance does not tell hard from easy: set curriculum.judge.scale=passes",
        )
        return mine

    def shown(self, judge: Judge, examples: int) -> int:
        """The number of exemplars; none where no judge prompt is read."""
        return 0 if judge.mode == "readout" and self.readout == "prompt" else examples

    def needs(self, judging: Needs) -> Needs:
        """The needs of judging, and of the readout if there is one."""
        if self.readout == "none":
            return judging
        return replace(judging, requests=judging.requests | {Embed})

    def states(self, candidates: Sequence[Prompt], chats: Sequence[Chat]) -> Plan[States | None]:
        """The states that the readout reads of the candidates; None where there is none."""
        if self.readout == "none":
            return None
        states: list[States] = []
        if self.readout != "judge":
            states.append((yield from embed(candidates, self.depths)))
        if self.readout != "prompt":
            states.append((yield from embed(chats, self.depths)))
        return [np.concatenate(parts) for parts in zip(*states, strict=True)]

    def learn(
        self,
        readout: Readout,
        states: States | None,
        chosen: Sequence[int],
        groups: Sequence[Group],
        step: int,
    ) -> None:
        """Take up what became of the chosen candidates."""
        if states is not None:
            readout.learn([states[i] for i in chosen], groups, step)

    def scores(
        self,
        verdicts: Sequence[Verdict],
        default: float | None,
        states: States | None,
        readout: Readout,
        rewards: Rewards = "binary",
    ) -> tuple[Scores, dict[str, float]]:
        """The scores that candidates are taken by, and metrics of the readout.

        A failed verdict has the default.
        """
        judged = [default if v.v_hat is None else self._expected(v) for v in verdicts]
        if states is None:
            return judged, {}
        read, metrics = readout.predict(states, regression(self.regression, rewards, self.harder))
        if all(value is None for value in read):
            return judged, metrics
        if self.mix == 1:
            return read, metrics
        mixed = (1 - self.mix) * ranks(_lowest(judged)) + self.mix * ranks(_lowest(read))
        scores: Scores = (mixed / max(1, len(read) - 1)).tolist()
        return scores, metrics

    def _expected(self, verdict: Verdict) -> float | None:
        """The expected worth; of continuous rewards, whose rates are not asked for, v_hat."""
        scale = verdict.scale
        if not self.harder or verdict.distribution is None or not scale.rates:
            return verdict.v_hat
        worth = np.array(scale.values) * (1 - np.array(scale.rates)) ** self.harder
        return float(verdict.distribution @ worth)


def _lowest(scores: Scores) -> list[float]:
    """With those that are missing below all others."""
    return [-math.inf if score is None else score for score in scores]
