"""Steps of a curriculum that wait for outcomes, and how they are saved.

A generator cannot be saved. So a step keeps the curriculum's state from before it began, each reply
that it was sent, and the state at that reply where another step had changed it meanwhile. Started
again from there, with the same replies, it waits where it waited.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from metis.core import (
    Batch,
    Curriculum,
    Group,
    Measure,
    Plan,
    Pool,
    Progress,
    Prompt,
    Request,
    Rollout,
    each_count,
)
from metis.errors import MetisError

State = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pick:
    """A prompt to roll out.

    id       what `observe` and `drop` take; no two picks have the same
    prompt   the row as it was given
    n        rollouts
    key      the row's own id, or its position
    measure  True if these rollouts only measure and are not trained on
    """

    id: int
    prompt: Any
    n: int
    key: str
    measure: bool = False


@dataclass
class Source:
    """A curriculum and its prompts: what plans read and change."""

    curriculum: Curriculum
    pool: Pool

    def state(self) -> State:
        return {"curriculum": self.curriculum.state_dict(), "pool": self.pool.places()}

    def restore(self, state: State) -> None:
        self.curriculum.load_state_dict(state["curriculum"])
        self.pool.go_to(state["pool"])


@dataclass
class Waiting:
    """The picks of a request: the id of the first, and the outcomes so far by position.

    `since` is the number of steps that had begun when they were proposed.
    """

    request: Rollout
    first: int
    since: int
    outcomes: dict[int, Group] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)

    @property
    def counts(self) -> list[int]:
        return each_count(self.request.n, self.request.prompts)

    @property
    def missing(self) -> list[int]:
        """Ids of the picks without an outcome."""
        places = range(len(self.request.prompts))
        return [self.first + place for place in places if place not in self.outcomes]

    def prompt(self, pick: int) -> Prompt:
        return self.request.prompts[pick - self.first]

    def groups(self) -> list[Group]:
        return [self.outcomes[place] for place in range(len(self.outcomes))]

    def state_dict(self) -> State:
        outcomes = [[i, list(group.rewards), group.failed] for i, group in self.outcomes.items()]
        dropped = sorted(self.dropped)
        return {
            "first": self.first,
            "since": self.since,
            "outcomes": outcomes,
            "dropped": dropped,
        }

    def load(self, outcomes: Sequence[Sequence[Any]], dropped: Sequence[int]) -> None:
        self.dropped = set(dropped)
        for place, rewards, failed in outcomes:
            prompt = self.request.prompts[place]
            self.outcomes[place] = Group(prompt, tuple(rewards), failed=failed)


class OpenPlan:
    """A step that has begun: what it asks for, and the replies that it was sent."""

    def __init__(self, source: Source, progress: Progress) -> None:
        self.progress = progress
        self.before = source.state()
        self.sent: list[tuple[Any, State | None]] = []
        self.waiting: Waiting | None = None
        self.batch: Batch | None = None
        self.seen = -1
        """The number of changes to the source when this plan last changed it."""
        self._start(source)

    def _start(self, source: Source) -> None:
        self._plan: Plan[Batch] = source.curriculum.step(source.pool, self.progress)
        self.request: Request[Any] | None = None
        self._resume(None)

    def send(self, reply: Any, before: State | None) -> None:
        """Go on with a reply; `before` is the state where others have changed it."""
        self.sent.append((reply, before))
        self.waiting = None
        self._resume(reply)

    def _resume(self, reply: Any) -> None:
        try:
            self.request = self._plan.send(reply)
        except StopIteration as end:
            self.request, self.batch = None, end.value

    def hand_out(self, first: int, since: int) -> None:
        """Wait for the outcomes of the request, from the pick with the id `first` on."""
        assert isinstance(self.request, Rollout)
        self.waiting = Waiting(self.request, first, since)

    def state_dict(self) -> State:
        waiting = self.waiting
        return {
            "step": self.progress.step,
            "fraction": self.progress.fraction,
            "policy": self.progress.policy,
            "before": self.before,
            "sent": [[_packed(reply), before] for reply, before in self.sent],
            "waiting": None if waiting is None else waiting.state_dict(),
        }

    @classmethod
    def restored(cls, source: Source, state: Mapping[str, Any], seed: int) -> "OpenPlan":
        """The plan of a saved state; it leaves the source in another state."""
        source.restore(state["before"])
        progress = Progress(state["step"], state["fraction"], state["policy"], seed)
        plan = cls(source, progress)
        for reply, before in state["sent"]:
            if before is not None:
                source.restore(before)
            plan.send(_unpacked(reply, plan.request), before)
        if (awaited := state["waiting"]) is not None:
            plan.hand_out(awaited["first"], awaited["since"])
            assert plan.waiting is not None
            plan.waiting.load(awaited["outcomes"], awaited["dropped"])
        return plan


def picks_of(waiting: Waiting, rows: Sequence[Any], places: Mapping[str, int]) -> list[Pick]:
    """The picks of a request that have no outcome yet."""
    counts, only = waiting.counts, isinstance(waiting.request, Measure)
    return [
        Pick(pick, rows[places[prompt.id]], counts[pick - waiting.first], prompt.id, only)
        for pick in waiting.missing
        for prompt in [waiting.prompt(pick)]
    ]


GROUPS = "groups"


def _packed(reply: Any) -> Any:
    """A reply as it is saved: groups without their prompts, which the request has."""
    if isinstance(reply, list) and reply and isinstance(reply[0], Group):
        return {GROUPS: [[list(group.rewards), group.failed] for group in reply]}
    return reply


def _unpacked(reply: Any, request: Request[Any] | None) -> Any:
    if not (isinstance(reply, dict) and GROUPS in reply):
        return reply
    if not isinstance(request, Rollout) or len(request.prompts) != len(reply[GROUPS]):
        raise MetisError("the saved state is of a selector with other settings: use the same ones")
    return [
        Group(prompt, tuple(rewards), failed=failed)
        for prompt, (rewards, failed) in zip(request.prompts, reply[GROUPS], strict=True)
    ]
