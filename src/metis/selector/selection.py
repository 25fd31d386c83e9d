"""`Selector`: proposes prompts to roll out, and observes their rewards, in any order."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from metis.core import (
    Batch,
    Chat,
    Curriculum,
    Group,
    Measure,
    Plan,
    Pool,
    Progress,
    Prompt,
    Request,
    Rollout,
    state,
)
from metis.core.needs import needs_of
from metis.core.pool import Rewards
from metis.curricula.registry import check_pool
from metis.errors import MetisError, require
from metis.run.records import batch_metrics
from metis.selector.asking import GIVE_ASK, Ask, checked, require_served
from metis.selector.endpoint import Endpoint
from metis.selector.plans import OpenPlan, Pick, Source, State, Waiting, picks_of
from metis.selector.rows import Rows
from metis.settings.sections import curriculum_of

LATE = 16
"""A pick without an outcome counts as dropped once this many later steps have begun."""

FORMAT = 1


class _Selection:
    """The base of both selectors; only `propose` may ask, so only it differs."""

    def __init__(
        self,
        prompts: Iterable[Any],
        curriculum: str | Curriculum = "mopps",
        *,
        batch: int = 32,
        group: int = 8,
        steps: int = 500,
        seed: int = 0,
        rewards: Rewards = "binary",
        ask: Ask | Endpoint | str | None = None,
        **settings: Any,
    ) -> None:
        """Refuses, at once, prompts and curricula that it cannot serve.

        prompts     dicts, texts, chats or `metis.Prompt`s, in a list or a dataset
        curriculum  a name, an import string, or an instance with its own settings
        batch       prompts of a step
        group       rollouts of each
        steps       planned steps, for schedules
        rewards     `binary`, or `continuous` between 0 and 1
        ask         answers what the curriculum asks beside rollouts: a function, a URL, an Endpoint
        settings    of the curriculum, such as `preset` and `judge`
        """
        require(steps >= 1, "steps", steps, "use at least 1")
        name = curriculum if isinstance(curriculum, str) else type(curriculum).__name__
        if isinstance(curriculum, str):
            curriculum = curriculum_of({"name": curriculum, **settings}, batch, group)
        else:
            remedy = "an instance of a curriculum has its own settings"
            require(not settings, next(iter(settings), ""), settings, remedy)
        self.ask = Endpoint(ask) if isinstance(ask, str) else ask
        require_served(name, curriculum, self.ask)
        self.name, self.steps, self.seed = name, steps, seed
        self.batch = int(getattr(curriculum, "batch", batch))
        self.group = int(getattr(curriculum, "group", group))
        self.rows = Rows(prompts)
        self._source = Source(curriculum, Pool(self.rows, rewards, seed))
        check_pool(self._source.pool, curriculum, self.batch)
        self._plans: list[OpenPlan] = []
        self._counts = dict.fromkeys(("begun", "ended", "picks", "dropped", "failed", "late"), 0)
        self._changes = 0
        self._metrics: dict[str, float] = {}

    # What a trainer calls

    def observe(self, pick: int, rewards: Iterable[float | None], failed: int = 0) -> bool:
        """The rewards of a pick's rollouts; True if they are to be trained on.

        Rollouts without a reward are `failed`, None among the rewards, or just missing. What comes
        for a pick that was dropped, or whose step has ended, changes nothing.
        """
        plan, waiting = self._waiting_for(pick)
        if plan is None or waiting is None:
            return False
        place = pick - waiting.first
        if place in waiting.dropped:
            return False
        if place in waiting.outcomes:
            raise MetisError(f"pick {pick} was observed before: observe each pick once")
        group = self._group(waiting, pick, rewards, failed)
        self._counts["failed"] += group.failed
        trained = self._trains(waiting, group)
        self._settle(plan, waiting, place, group)
        return trained

    def drop(self, pick: int) -> None:
        """A pick will not be rolled out, or its rollouts are not wanted; without effect later."""
        plan, waiting = self._waiting_for(pick)
        if plan is None or waiting is None or pick - waiting.first in waiting.outcomes:
            return
        self._counts["dropped"] += 1
        self._drop(plan, waiting, pick)

    @property
    def outstanding(self) -> list[Pick]:
        """The picks without an outcome: after loading a state, those to roll out again."""
        places = self._source.pool.positions
        return [
            pick
            for plan in self._plans
            if plan.waiting is not None
            for pick in picks_of(plan.waiting, self.rows.given, places)
        ]

    @property
    def filters(self) -> bool:
        """True where the curriculum decides after the rollouts what is trained on."""
        return getattr(self._source.curriculum, "keeps", None) is not None

    @property
    def ragged(self) -> bool:
        """True where `n` differs from pick to pick."""
        return needs_of(self._source.curriculum).ragged

    def row(self, prompt: Prompt) -> Any:
        """The row of a prompt, as it was given."""
        return self.rows.given[self._source.pool.positions[prompt.id]]

    def metrics(self) -> dict[str, float]:
        """Numbers of the last step that ended, and counts so far."""
        missing = sum(len(plan.waiting.missing) for plan in self._plans if plan.waiting is not None)
        counts = {f"selector/{name}": float(count) for name, count in self._counts.items()}
        return {**self._metrics, **counts, "selector/outstanding": float(missing)}

    def state_dict(self) -> State:
        """All that a selector of the same prompts and settings needs to go on from here."""
        return {
            "format": FORMAT,
            "selector": self._identity,
            "counts": dict(self._counts),
            "curriculum": self._source.curriculum.state_dict(),
            "pool": self._source.pool.state_dict(),
            "plans": [plan.state_dict() for plan in self._plans],
            "metrics": dict(self._metrics),
        }

    def load_state_dict(self, saved: State) -> None:
        require(saved.get("format") == FORMAT, "state", saved.get("format"), "it is no selector's")
        if saved["selector"] != self._identity:
            raise MetisError(
                f"the state is of a selector with {saved['selector']}, this one has "
                f"{self._identity}: use the same settings"
            )
        pool = self._source.pool
        pool.load_state_dict(saved["pool"])
        self._plans = [OpenPlan.restored(self._source, plan, self.seed) for plan in saved["plans"]]
        self._source.curriculum.load_state_dict(saved["curriculum"])
        pool.load_state_dict(saved["pool"])
        self._counts, self._metrics = dict(saved["counts"]), dict(saved["metrics"])

    @property
    def _identity(self) -> dict[str, Any]:
        sizes = {"batch": self.batch, "group": self.group}
        return {"curriculum": self.name, "steps": self.steps, **sizes}

    # Steps

    def _proposal(self) -> Plan[list[Pick]]:
        """Answers the curriculum's requests other than rollouts; returns the next picks."""
        self._give_up_late()
        empty = 0
        while True:
            for plan in list(self._plans):
                yield from self._answer(plan)
                if isinstance(plan.request, Rollout) and plan.waiting is None:
                    return self._hand_out(plan)
            ended = self._counts["ended"]
            self._begin()
            empty = empty + 1 if self._counts["ended"] > ended else 0
            if empty > len(self.rows) + 1:
                raise MetisError(
                    f"curriculum = {self.name!r} asked for no rollouts in {empty} steps"
                )

    def _begin(self) -> None:
        curriculum, step = self._source.curriculum, self._counts["begun"]
        if self._plans and needs_of(curriculum).in_turn:
            raise MetisError(
                f"curriculum = {self.name!r}: a step has to end before the next one begins, and "
                f"{len(self.outstanding)} picks are outstanding: observe or drop them first, or "
                "use a curriculum that takes late outcomes, such as mopps"
            )
        progress = Progress(step, min(1.0, step / self.steps), step, self.seed)
        plan = OpenPlan(self._source, progress)
        self._counts["begun"] += 1
        self._plans.append(plan)
        self._changed_by(plan)

    def _answer(self, plan: OpenPlan) -> Plan[None]:
        """Answer what a plan asks, up to its next rollouts or its end."""
        while plan.request is not None and not isinstance(plan.request, Rollout):
            request = plan.request
            reply = yield request
            self._send(plan, checked(request, reply))

    def _send(self, plan: OpenPlan, reply: Any) -> None:
        plan.send(reply, None if plan.seen == self._changes else self._source.state())
        self._changed_by(plan)

    def _changed_by(self, plan: OpenPlan) -> None:
        self._changes += 1
        plan.seen = self._changes
        if plan.request is None:
            self._plans.remove(plan)
            self._end(plan)

    def _end(self, plan: OpenPlan) -> None:
        batch = plan.batch
        if not isinstance(batch, Batch):
            raise MetisError(f"curriculum = {self.name!r}: its step returned no metis.core.Batch")
        if batch.judgments:
            raise MetisError(
                f"curriculum = {self.name!r} has judgments to train on, which needs a loss of its "
                "own: declare it in `needs`"
            )
        if not self._counts["ended"]:
            state.require_savable(self._source.curriculum)
        self._counts["ended"] += 1
        lag = self._counts["begun"] - plan.progress.step - 1
        self._metrics = {
            **batch_metrics(batch),
            **batch.metrics,
            "selector/step": float(plan.progress.step),
            "selector/lag": float(lag),
        }
        for text in batch.notices:
            logging.getLogger("metis").warning("step %d: %s", plan.progress.step + 1, text)

    def _asked(self, request: Request[Any]) -> Callable[[], Any]:
        """The call that answers a request."""
        if isinstance(self.ask, Endpoint):
            return partial(self.ask.answer, request, self._chat)
        if self.ask is None:
            raise MetisError(
                f"curriculum = {self.name!r} asks for {type(request).__name__}, which it does not "
                f"declare in `needs`: {GIVE_ASK}"
            )
        return partial(self.ask, request)

    def _chat(self, prompt: Prompt) -> Chat:
        return self.rows.chat(self._source.pool.positions[prompt.id])

    # Picks

    def _hand_out(self, plan: OpenPlan) -> list[Pick]:
        plan.hand_out(self._counts["picks"], self._counts["begun"])
        assert plan.waiting is not None
        self._counts["picks"] += len(plan.waiting.request.prompts)
        return picks_of(plan.waiting, self.rows.given, self._source.pool.positions)

    def _waiting_for(self, pick: int) -> tuple[OpenPlan | None, Waiting | None]:
        """The open plan of a pick, and its request; neither if its request has been answered."""
        if not 0 <= pick < self._counts["picks"]:
            raise MetisError(f"pick {pick!r} was never proposed")
        for plan in self._plans:
            waiting = plan.waiting
            if waiting and waiting.first <= pick < waiting.first + len(waiting.request.prompts):
                return plan, waiting
        return None, None

    def _group(
        self, waiting: Waiting, pick: int, rewards: Iterable[float | None], failed: int
    ) -> Group:
        valid = [float(reward) for reward in rewards if reward is not None]
        n = waiting.counts[pick - waiting.first]
        if failed < 0 or len(valid) + failed > n:
            raise MetisError(
                f"pick {pick} has {len(valid)} rewards and {failed} failed rollouts: it was "
                f"proposed for {n}"
            )
        group = Group(waiting.prompt(pick), tuple(valid), failed=n - len(valid))
        if self._source.pool.rewards == "binary" and not {*group.rewards} <= {0.0, 1.0}:
            other = next(reward for reward in group.rewards if reward not in (0.0, 1.0))
            raise MetisError(f"pick {pick}: reward {other} is not 0 or 1; set rewards='continuous'")
        return group

    def _trains(self, waiting: Waiting, group: Group) -> bool:
        if isinstance(waiting.request, Measure) or not group.rewards:
            return False
        keeps = getattr(self._source.curriculum, "keeps", None)
        return True if keeps is None else bool(keeps(group))

    def _settle(self, plan: OpenPlan, waiting: Waiting, place: int, group: Group) -> None:
        waiting.outcomes[place] = group
        if len(waiting.outcomes) == len(waiting.request.prompts):
            self._send(plan, waiting.groups())

    def _drop(self, plan: OpenPlan, waiting: Waiting, pick: int) -> None:
        place = pick - waiting.first
        waiting.dropped.add(place)
        lost = Group(waiting.prompt(pick), (), failed=waiting.counts[place])
        self._settle(plan, waiting, place, lost)

    def _give_up_late(self) -> None:
        """Drop what has been outstanding for too many steps."""
        first = self._counts["begun"] - LATE
        for plan in list(self._plans):
            waiting = plan.waiting
            if waiting is None or waiting.since > first:
                continue
            for pick in waiting.missing:
                self._counts["late"] += 1
                self._drop(plan, waiting, pick)


def _next(proposal: Plan[list[Pick]], reply: Any) -> tuple[Request[Any] | None, list[Pick]]:
    """The next request of a proposal; None at its end, and then its picks."""
    try:
        return proposal.send(reply), []
    except StopIteration as end:
        return None, end.value


class Selector(_Selection):
    """Any curriculum in one's own training loop.

    selector = metis.Selector(rows, "mopps", batch=32, group=8, steps=500)
    for pick in selector.propose():
        train = selector.observe(pick.id, rewards)
    """

    def propose(self) -> list[Pick]:
        """The next prompts to roll out; those of earlier calls may still be outstanding."""
        proposal = self._proposal()
        request, picks = _next(proposal, None)
        while request is not None:
            request, picks = _next(proposal, self._ask(request))
        return picks

    def _ask(self, request: Request[Any]) -> Any:
        return self._asked(request)()


class AsyncSelector(_Selection):
    """A `Selector` whose `propose` is awaited; `ask` may be a coroutine function.

    What is observed while it waits for an answer counts as usual.
    """

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self._one = asyncio.Lock()

    async def propose(self) -> list[Pick]:
        """The next prompts to roll out; those of earlier calls may still be outstanding."""
        async with self._one:
            proposal = self._proposal()
            request, picks = _next(proposal, None)
            while request is not None:
                request, picks = _next(proposal, await self._ask(request))
            return picks

    async def _ask(self, request: Request[Any]) -> Any:
        answer = self._asked(request)
        reply = await asyncio.to_thread(answer) if isinstance(self.ask, Endpoint) else answer()
        return await reply if inspect.isawaitable(reply) else reply
