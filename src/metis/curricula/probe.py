"""Probe: a linear probe of the policy's hidden state of the prompt predicts its variance.

Idea       The policy's hidden state may encode which prompts are informative: ridge regression from
           it to the variance of prompts in the last steps.
Equation   v_hat(x) = mean v + w . z(x), w = argmin sum (v - mean v - w . z)^2 + alpha |w|^2, with z
           the standardised state; S_t = TopB v_hat(x) (METIS, Eq. 6). The alpha, one of six, is
           chosen by cross-validation.
Acts       before rollouts
Costs      m*B forward passes of the prompt a step
Continuous ridge regression: v is defined for any reward
Reference  Linear probes: Alain and Bengio, arXiv 1610.01644; the selection is METIS's, Zheng et
           al., arXiv 2605.11235.
Deviations
1. No paper proposes it as a curriculum: it is a baseline that METIS should beat.
2. `judge.regression=logistic` regresses the pass rate p instead and takes the expected p (1 - p),
   which ranks problems of MATH better, and of DAPO no worse (docs/judge-offline.md).
3. A label keeps the hidden state from when its prompt was selected. Computing all again after each
   update would cost more forward passes than the candidates.
"""

from dataclasses import dataclass, field
from typing import Any

from metis.curricula.judges import Judge, Readout
from metis.curricula.metis import Metis


@dataclass
class Probe(Metis):
    """METIS whose judge is ridge regression on the last hidden state of the prompt.

    judge  `readout` with regression `ridge` and layer 1, the last
    """

    judge: Judge[Any] = field(default_factory=lambda: Readout(regression="ridge", layer=1.0))
