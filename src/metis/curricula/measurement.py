"""Notices of methods that measure difficulties before they train."""


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
