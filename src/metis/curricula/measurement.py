"""Notices of methods that measure difficulties before they train."""


def begun(noun: str, prompts: int, steps: int, spared: int) -> str:
    """In the first of `steps` that only measure; `spared` are rollouts that difficulties cost."""
    text = f"measuring the {noun} of {prompts} prompts; steps without an update: {steps}"
    if spared:
        text += (
            f"; the data has no difficulties, which would take {spared} rollouts to measure "
            "(curriculum.categories=difficulty)"
        )
    return text


def costly(steps: int, fraction: float) -> list[str]:
    """After the first of `steps` that only measure: a notice where they take much of the budget.

    `fraction` is what that one took of it, be it limited in steps, tokens or seconds.
    """
    share = steps * fraction
    if share < 0.5:
        return []
    text = f"measuring takes about {share:.0%} of the budget"
    if share >= 1:
        text += (
            ", so that nothing will be trained on: raise the budget or the batch, or use fewer "
            "prompts"
        )
    return [text]
