"""Notices of methods that measure difficulties before training."""


def measuring_notice(noun: str, prompts: int, steps: int, spared: int) -> str:
    """The notice in the first measuring step; `spared` are the rollouts that were avoided."""
    text = f"measuring the {noun} of {prompts} prompts; steps without an update: {steps}"
    if spared:
        text += (
            f"; the data has no difficulties, which would take {spared} rollouts to measure "
            "(curriculum.categories=difficulty)"
        )
    return text


def cost_notice(steps: int, fraction: float) -> list[str]:
    """After the first of `steps` measuring steps: a notice if they take much of the budget.

    `fraction` is the share of the budget that the first one took.
    """
    total = steps * fraction
    if total < 0.5:
        return []
    text = f"measuring takes about {total:.0%} of the budget"
    if total >= 1:
        text += (
            ", so that there will be no training: raise the budget or the batch, or use fewer "
            "prompts"
        )
    return [text]
