"""The summary of a preparation, as a table."""

from collections.abc import Iterator, Sequence

from metis.prepare.math import Outcome

HEADER = ("set", "rows", "problems", "no answer", "conflicting", "in a test set", "written", "file")


def lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The table, and under it what should be known of each set."""
    rows = [HEADER, *(_row(outcome) for outcome in outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    for row in rows:
        first, *numbers, last = (
            text.ljust(width) if column in (0, len(HEADER) - 1) else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([first, *numbers, last]).rstrip()
    for outcome in outcomes:
        for note in outcome.notes:
            yield f"{outcome.name}: {note}"
        if outcome.written < outcome.problems:
            dropped = outcome.path.removesuffix(".parquet") + ".dropped.jsonl"
            yield f"{outcome.name}: what was dropped, and why: {dropped}"


def _row(outcome: Outcome) -> tuple[str, ...]:
    numbers = (
        outcome.rows,
        outcome.problems,
        outcome.unanswered,
        outcome.conflicting,
        sum(outcome.contaminated.values()),
        outcome.written,
    )
    state = "" if outcome.fresh else f" (already there, from {outcome.source})"
    return (outcome.name, *(f"{number:,}" for number in numbers), f"{outcome.path}{state}")
