"""Advice on a pool, in two sentences, by the share of its prompts that are informative.

The bounds are those of measured runs: with 1% informative METIS reaches uniform selection's best
in a third of its rollouts (evidence/hopeless-90); with 6%, soon a quarter, it is ahead at first
and not in the end (evidence/levels-2-to-10).
"""

from metis.survey.facts import Facts

RARE, COMMON = 0.05, 0.3
MOSTLY_CUT = 0.5


def advice(facts: Facts, group: int) -> str:
    """A recommendation."""
    share = facts.informative
    if facts.failed >= MOSTLY_CUT:
        return (
            f"{facts.failed:.0%} of the rollouts failed: mend the task or its reward first. Until "
            "then the other numbers mean little."
        )
    if not share.value:
        return _nothing(facts, group, share.high)
    found = f"{share.value:.1%} of the prompts are informative"
    ceiling = f"selection could raise the signal of a batch {facts.ceiling(8):.1f} times at best"
    if share.value >= COMMON:
        return (
            f"{found}: uniform selection is enough to learn from this pool. A curriculum can still "
            "be faster, the more so as prompts are solved: `metis compare` shows whether it is."
        )
    if share.value > RARE:
        return (
            f"{found}: METIS finds more of them at first, and may not be ahead in the end. "
            "Compare it with uniform selection over a few seeds before you rely on it: `metis "
            "compare RECIPE --curricula uniform,metis`."
        )
    return (
        f"{found}: most rollouts of uniform selection teach nothing, and {ceiling}. Use METIS "
        "(curriculum=metis); where it has been measured on such a pool it took a third of the "
        "rollouts."
    )


def _nothing(facts: Facts, group: int, most: float) -> str:
    shares = facts.shares()
    counted = (
        f"None of {len(facts.outcomes)} prompts is informative (at most {most:.1%} of the pool)"
    )
    if facts.cut_off >= MOSTLY_CUT:
        return (
            f"{counted}, and {facts.cut_off:.0%} of the answers were cut off: raise "
            "engine.max_tokens, or ask for shorter answers. No selection helps before that."
        )
    if shares["solved"].value > shares["dead"].value:
        return (
            f"{counted}: the model solves them, and there is nothing to learn here. Take harder "
            "prompts."
        )
    return (
        f"{counted}: no selection finds a gradient where there is none. Take easier prompts, a "
        f"better model, a reward with partial credit, or larger groups than {group}."
    )
