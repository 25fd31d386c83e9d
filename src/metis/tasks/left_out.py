"""Counts the rows of a file that are skipped, by reason."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class LeftOut:
    """The rows of a file so far: how many, and why some are no problems."""

    path: str
    rows: int = 0
    unasked: int = 0
    unanswered: int = 0
    repeated: int = 0
    contradictory: int = 0
    """Repeated problems with another answer than the first."""

    def drops(self, problem: str, answer: str | None, before: str | None) -> bool:
        """Count a row; True if it is to be skipped.

        `answer` is None where none is needed, `before` the answer of the same problem in an earlier
        row, None where there is none.
        """
        self.rows += 1
        if not problem:
            self.unasked += 1
        elif answer == "":
            self.unanswered += 1
        elif before is not None:
            self.repeated += 1
            self.contradictory += answer not in (None, before)
        else:
            return False
        return True

    def notices(self) -> Iterator[str]:
        """A notice with the counts, if any row was skipped."""
        dropped = self.unasked + self.unanswered + self.repeated
        if not dropped:
            return
        other = f" ({self.contradictory:,} with another answer; the first counts)"
        counts = {
            "without a problem": self.unasked,
            "without an answer": self.unanswered,
            f"repeated{other if self.contradictory else ''}": self.repeated,
        }
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in counts.items() if count)
        yield (
            f"{self.path}: {self.rows - dropped:,} of {self.rows:,} rows are used; left out are "
            f"{reasons}"
        )
