"""Advice on a training set, in two sentences, by the share of its prompts that are informative.

What METIS would gain is predicted from all training sets that were measured, with an interval; not
on tasks other than additions where informative prompts are rarer than was measured there. Tokens
that METIS only reads are not in it.
"""

from metis.run.notices import EASIER, HARDER, LONGER, MEND, MOSTLY, sentence
from metis.run.statistics import RARE
from metis.surveys.facts import Share, SurveyFacts
from metis.surveys.measured import POOLS
from metis.surveys.prediction import least_share, predict

COMMON = 0.15
COMPARE = "`metis compare RECIPE --curricula uniform,metis`"


def advice(facts: SurveyFacts, group: int, task: str = "") -> str:
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
    return f"{share.value:.1%} of the prompts are informative: {_gain(facts, task)}"


def _gain(facts: SurveyFacts, task: str) -> str:
    """The predicted gain of METIS, and the advice that follows."""
    expected = predict(facts.informative, task)
    if expected is None:
        return (
            f"selection could raise the signal of a batch {facts.ceiling(8):.1f} times at best, "
            f"and what METIS gains by it is not predicted, since below {least_share(task):.1%} "
            f"only additions were measured. Compare it with uniform sampling: {COMPARE}."
        )
    said = (
        f"METIS is predicted to take {expected.low:.2f} to {expected.high:.2f} of uniform "
        f"sampling's rollouts to equal accuracy (95% interval, middle {expected.rollouts:.2f})"
    )
    if expected.high >= 1:
        exact = predict(Share(*[facts.informative.value] * 3), task)
        few = " from so few (survey more --prompts)" if exact and exact.high < 1 else ""
        return (
            f"{said}, so no gain is predicted{few}. Compare it with uniform sampling over a few "
            f"seeds before you rely on it: {COMPARE}."
        )
    return (
        f"{said}. Use METIS (curriculum=metis) where rollouts are what costs: on sets of "
        f"additions like this one it took {_range('total')} of the total tokens, since it reads "
        "every candidate."
    )


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
