"""Notices of failed rollouts."""

from metis.core import Rollout
from metis.run.notices import failure_notice
from metis.run.recording import Heard


class Failures:
    """Gives a notice for the first failure of each kind: a type of error, and its place."""

    def __init__(self) -> None:
        self.kinds: set[tuple[str, str]] = set()

    def notices(self, heard: Heard) -> list[str]:
        found = []
        for reason in _reasons(heard):
            kind = _kind(reason)
            if kind not in self.kinds:
                self.kinds.add(kind)
                found.append(failure_notice(reason))
        return found


def _reasons(heard: Heard) -> list[str]:
    groups = [group for request, reply in heard if isinstance(request, Rollout) for group in reply]
    return [said.failure for group in groups for said in group.transcripts if said.failure]


def _kind(reason: str) -> tuple[str, str]:
    """Type and place, of "ValueError: no number (reward.py, line 3, in score)"."""
    place = reason.rpartition(" (")[2] if reason.endswith(")") else ""
    return reason.partition(":")[0], place
