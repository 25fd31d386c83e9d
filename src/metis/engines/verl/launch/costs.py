"""A notice on what a judge costs on verl."""

from metis.core.needs import Needs


def judge_cost(needs: Needs) -> str | None:
    """A notice on judge prompts in the update, for scored judgments."""
    if not needs.choices:
        return None
    single = all(len(choice) == 1 for choice in needs.choices)
    times = "once" if single else "several times (once with curriculum.judge.scale=passes)"
    replayed = f", and so does each of up to {needs.replay} replayed ones (curriculum.judge.replay)"
    return (
        "curriculum.judge = 'direct': on verl each judgment repeats its judge prompt in the "
        f"update, {times}{replayed if needs.replay else ''}; curriculum.judge.train=0.25 trains on "
        "a quarter of them: docs/costs.md has the figures"
    )
