"""A filter after the rollouts of any curriculum that selects before them: `curriculum.filter`.

The curriculum selects, all that it selected are rolled out, and it learns from all of them; then
the filter, `dapo` or `ragen2`, says which groups are trained on. With more than one round the
curriculum selects again until the batch is full: for it each round is a step.
"""

import math
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from metis.core import Batch, Decision, Group, Judgment, Plan, Progress
from metis.core.needs import Needs, needs_of
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.dapo import Dapo
from metis.curricula.filtering import rollout_count
from metis.curricula.ragen2 import Ragen2
from metis.errors import MetisError

FILTERS: dict[str, type[Dapo] | type[Ragen2]] = {"dapo": Dapo, "ragen2": Ragen2}
"""Filters by name, which are curricula of their own on uniform prompts."""

DROPPED = "filtered"
"""The key of a judgment whose group is not trained on."""

SUMMED = ("select/candidates", "select/discarded")


@dataclass
class Filtered(Stateful):
    """A curriculum, with a filter after its rollouts."""

    of: Any
    filter: Dapo | Ragen2

    selections: int = field(init=False, default=0)
    """Selections so far, which are the curriculum's steps."""

    def __post_init__(self) -> None:
        self.batch, self.group = int(self.of.batch), int(self.of.group)
        self.of.batch = math.ceil(self.filter.multiplier * self.batch)
        if hasattr(self.of, "keeps") or needs_of(self.of).held:
            raise MetisError(
                f"curriculum.filter = {self.name!r}: {type(self.of).__name__} itself decides after "
                "the rollouts what is trained on; use a curriculum that selects before them"
            )

    def __getattr__(self, name: str) -> Any:
        """What only the curriculum has, such as a judge."""
        if name.startswith("_") or name in ("of", "filter"):
            raise AttributeError(name)
        return getattr(self.of, name)

    @property
    def name(self) -> str:
        """The name of the filter."""
        return next(name for name, kind in FILTERS.items() if type(self.filter) is kind)

    @property
    def section(self) -> dict[str, Any]:
        """The filter's name and settings."""
        settings = asdict(self.filter)
        state = {each.name for each in fields(self.filter) if not each.init}
        given = {key: settings[key] for key in settings if key not in {*state, "batch", "group"}}
        return {"name": self.name, **given}

    @property
    def described(self) -> Any:
        """The curriculum as it would be without a filter."""
        return replace(self.of, batch=self.batch)

    @property
    def needs(self) -> Needs:
        return needs_of(self.of)

    def keeps(self, group: Group) -> bool:
        """True where the group is trained on, as far as it alone says."""
        return self.filter.keeps(group)

    def check(self, pool: Pool) -> None:
        check = getattr(self.of, "check", None)
        if check is not None:
            check(pool)

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        self.filter.batch, ties = self.batch, progress.rng("filter")
        rounds: list[Batch] = []
        groups: list[Group] = []
        chosen: list[int] = []
        repeated = 0.0
        while len(chosen) < self.batch and len(rounds) < self.filter.rounds:
            self.of.batch = math.ceil(self.filter.multiplier * self.batch)
            selected = yield from self.of.step(pool, replace(progress, step=self.selections))
            self.selections += 1
            rounds.append(selected)
            known = {group.prompt.id for group in groups}
            fresh = [group for group in selected.groups if group.prompt.id not in known]
            repeated += rollout_count(selected.groups) - rollout_count(fresh)
            if not fresh:
                break
            groups += fresh
            chosen = self.filter.chosen(groups, ties)
        if not groups:
            return rounds[-1]
        filtered = self.filter.filtered(groups, chosen, len(rounds))
        return _joined(rounds, filtered, repeated)


def _joined(rounds: list[Batch], filtered: Batch, repeated: float) -> Batch:
    """The filter's batch, with what the curriculum says of its selections."""
    last = rounds[-1]
    metrics = {**last.metrics, **filtered.metrics}
    metrics["select/discarded"] += repeated
    for name in SUMMED:
        of_rounds = [each.metrics[name] for each in rounds if name in each.metrics]
        own = filtered.metrics[name] + repeated if name == "select/discarded" else 0.0
        if of_rounds:
            metrics[name] = own + sum(of_rounds)
    return replace(
        last,
        groups=filtered.groups,
        judgments=_judgments(rounds, {group.prompt.id for group in filtered.groups}),
        metrics=metrics,
        decisions=_decisions(rounds, filtered),
        notices=[*(text for each in rounds for text in each.notices), *filtered.notices],
        exemplars=[shown for each in rounds for shown in each.exemplars],
    )


def _judgments(rounds: list[Batch], trained: set[str]) -> list[Judgment]:
    """Those of all groups, and one round's replayed ones; a filtered group has no mini-batch."""
    fresh = [row for each in rounds for row in each.judgments if not row.key]
    placed = [row if row.prompt.id in trained else replace(row, key=DROPPED) for row in fresh]
    return placed + [row for row in rounds[0].judgments if row.key]


def _decisions(rounds: list[Batch], filtered: Batch) -> list[Decision]:
    """The curriculum's decisions, except on what the filter drops."""
    found: dict[str, Decision] = {}
    for decision in (line for each in rounds for line in each.decisions):
        earlier = found.get(decision.prompt.id)
        if earlier is None or (decision.chosen and not earlier.chosen):
            found[decision.prompt.id] = decision
    for verdict in filtered.decisions:
        selected = found.get(verdict.prompt.id, verdict)
        dropped = replace(selected, chosen=False, reason=verdict.reason)
        found[verdict.prompt.id] = selected if verdict.chosen else dropped
    return list(found.values())
