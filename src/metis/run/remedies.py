"""Remedies for rollouts without a gradient, as notices, surveys and diagnoses word them."""

LONGER = "raise engine.max_tokens, or ask for shorter answers"
"""Of answers that are truncated."""
MEND = "fix the task or its reward first"
"""Of rollouts that fail."""
EASIER = "take easier prompts, a better model, a reward with partial credit, or larger groups"
"""Of prompts that no rollout solves."""
HARDER = "take harder prompts"
"""Of prompts that all rollouts solve."""


def sentence(text: str) -> str:
    """The same as the beginning of a sentence."""
    return text[:1].upper() + text[1:]
