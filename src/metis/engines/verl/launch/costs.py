"""The price of a curriculum on verl, in words, for those who start a run."""

from metis.core.needs import Needs


def judge_cost(needs: Needs) -> str | None:
    """A remark about the judge prompts that go through the update, where judgments are scored."""
    if not needs.choices:
        return None
    single = all(len(choice) == 1 for choice in needs.choices)
    rows = "one row" if single else "a row for each place where choices part (scale=passes has one)"
    replayed = f", up to {needs.replay} judgments beside those of the batch (curriculum.replay)"
    return (
        f"curriculum.judge.mode = 'direct' trains {rows} for a judgment on verl, with its whole "
        f"prompt{replayed if needs.replay else ''}; curriculum.judge.train=0.25 trains on a "
        "quarter of them: docs/verl-costs.md has the figures"
    )
