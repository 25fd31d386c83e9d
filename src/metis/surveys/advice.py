"""Advice on a training set, in two sentences, by the share of its prompts that are informative.

The bounds are those of measured runs (docs/when-it-pays.md): below 5% METIS took 0.17 to 0.68 of
uniform sampling's rollouts, at 7% 0.74 on one set and 1.09 on another
(evidence/levels-2-to-10), at 19% 1.08 (no difference shown). Tokens that it only reads are not in
these: of total tokens it took 0.75 to 3.4 times uniform sampling's.

All of them are of additions with a model of 135M parameters: a first guess for other tasks.
"""

from metis.run.notices import EASIER, HARDER, LONGER, MEND, MOSTLY, sentence
from metis.run.statistics import RARE
from metis.surveys.facts import Share, SurveyFacts
from metis.surveys.measured import POOLS

COMMON = 0.15


def advice(facts: SurveyFacts, group: int) -> str:
    """A recommendation."""
    share = facts.informative
    if facts.failed >= MOSTLY:
        return (
            f"{facts.failed:.0%} of the rollouts failed: {MEND}. Until then the other "
            "numbers mean little."
        )
    if facts.cut_off >= MOSTLY:
        return (
            f"{facts.cut_off:.0%} of the answers were truncated: {LONGER}, and survey "
            "again. What looks all-fail may only be truncated."
        )
    if not share.value:
        return _nothing(facts, group, share.high)
    if share.low < RARE and share.high > COMMON:
        return (
            f"Between {share.low:.1%} and {share.high:.1%} of the prompts are informative: "
            f"{len(facts.outcomes)} prompts are too few for advice. Survey more with --prompts."
        )
    fact = f"{share.value:.1%} of the prompts are informative{_doubt(share)}"
    ceiling = f"selection could raise the signal of a batch {facts.ceiling(8):.1f} times at best"
    if share.value >= COMMON:
        return (
            f"{fact}: on additions, the one task this bound comes from, no gain of METIS over "
            "uniform sampling was shown there. Whether it pays on yours, `metis compare RECIPE "
            "--curricula uniform,metis` shows."
        )
    if share.value > RARE:
        return (
            f"{fact}: METIS finds more of them at first, and may not be ahead in the end. "
            "Compare it with uniform sampling over a few seeds before you rely on it: `metis "
            "compare RECIPE --curricula uniform,metis`."
        )
    return (
        f"{fact}: most rollouts of uniform sampling teach nothing, and {ceiling}. Use METIS "
        f"(curriculum=metis) where rollouts are what costs: on sets of additions like this one it "
        f"took {_range('rollouts')} of the rollouts, and {_range('total')} of the total tokens, "
        "since it reads every candidate."
    )


def _doubt(share: Share) -> str:
    """The interval of a share, if its other values would change the advice."""
    if not any(share.low < bound < share.high for bound in (RARE, COMMON)):
        return ""
    return f" ({share.low:.1%} to {share.high:.1%}: survey more --prompts to be sure)"


def _range(cost: str) -> str:
    """The range of METIS's cost on measured training sets where informative prompts are rare."""
    ratios = [getattr(pool.costs["metis"], cost) for pool in POOLS if pool.informative <= RARE]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def _nothing(facts: SurveyFacts, group: int, most: float) -> str:
    shares = facts.shares()
    counted = (
        f"None of {len(facts.outcomes)} prompts is informative (at most {most:.1%} of all prompts)"
    )
    if shares["all-pass"].value > shares["all-fail"].value:
        return (
            f"{counted}: the model solves them, and there is nothing to learn here. "
            f"{sentence(HARDER)}."
        )
    return (
        f"{counted}: no selection finds a gradient where there is none. "
        f"{sentence(EASIER)} than {group}."
    )
