"""Measurements from the logs of a run: rise in accuracy, waste, and the judge's lift."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from metis.curricula.judges import Judge
from metis.diagnosis.missed import Missed, Passed, having, missed, passed
from metis.errors import Damaged
from metis.run import folder as run_folder
from metis.run import notices, transcripts
from metis.run.recorded import Recorded, Series
from metis.run.statistics import NORMAL, Estimate, group_kind, mean, mean_over_benchmarks
from metis.tasks.benchmarks.validation import benchmark

PART = 5
"""The beginning and the end of a run are a fifth of its steps each."""
LATE = 20
"""Groups of the end of a run whose kinds are looked at, at least."""
MISSED = 0.1
"""Share of the groups that are all-fail from which on their answers are looked at."""
GRADIENT_NORMS = ("update/gradient_norm", "actor/grad_norm")
DIVERGENCES = ("actor/kl_loss", "actor/ppo_kl")


class Interval(NamedTuple):
    """An estimate with its 95% interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def interval(estimate: Estimate | None) -> Interval | None:
    """The 95% interval of an estimate; None where its error is not known."""
    if estimate is None or estimate.error is None:
        return None
    half = NORMAL * estimate.error
    return Interval(estimate.mean, estimate.mean - half, estimate.mean + half)


def paired(run: Recorded) -> Estimate:
    """The rise from the first validation to the last, prompt by prompt, and its standard error.

    Prompts are paired within their benchmark, each of which has the same weight in the accuracy.
    On verl a prompt without a reward failed, which counts as 0; where no prompt is known, the rise
    has no standard error.
    """
    first, last = run.evaluations[0], run.evaluations[-1]
    before, after = run.rewards.get(first.step, {}), run.rewards.get(last.step, {})
    rises: dict[str, list[float]] = {}
    for prompt in sorted(before.keys() | after.keys()):
        name = benchmark(prompt) if run.config.get("benchmarks") else ""
        rises.setdefault(name, []).append(after.get(prompt, 0.0) - before.get(prompt, 0.0))
    if not rises:
        return Estimate(last.accuracy - first.accuracy, None)
    return mean_over_benchmarks([mean(values) for values in rises.values()])


@dataclass
class Groups:
    """Counts over the groups trained on; empty for folders without that log."""

    kinds: list[str] = field(default_factory=list)
    """The kind of each group, in the order of the log."""
    rewards: set[float] = field(default_factory=set)
    """The different rewards."""
    lengths: Counter[int] = field(default_factory=Counter)
    """Answers by their length in tokens."""
    rollouts: int = 0
    """Rollouts with a reward."""
    last: int = 0
    """The step of the last group."""

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> "Groups":
        found = cls()
        for row in rows:
            rewards = row.get("rewards", [])
            found.kinds.append(group_kind(rewards))
            found.rewards.update(rewards)
            found.lengths.update(row.get("tokens", ()))
            found.rollouts += len(rewards)
            found.last = row["step"]
        return found


@dataclass(frozen=True)
class RunFacts:
    """The numbers of a run that its diagnosis is made of."""

    run: Recorded

    @cached_property
    def rise(self) -> Estimate | None:
        """The rise in held-out accuracy; None without a second validation.

        Where rewards of prompts are not logged, its error is that of two independent samples, which
        is too large.
        """
        tests = self.run.evaluations
        if len(tests) < 2:
            return None
        rise, errors = paired(self.run), (tests[0].stderr, tests[-1].stderr)
        if self.heldout or None in errors:
            return rise
        return Estimate(rise.mean, math.hypot(*(error or 0.0 for error in errors)) or None)

    @property
    def change(self) -> Interval | None:
        return interval(self.rise)

    @property
    def heldout(self) -> int:
        """Held-out prompts of the last validation, where they are recorded."""
        tests = self.run.evaluations
        return len(self.run.rewards.get(tests[-1].step, {})) if tests else 0

    @cached_property
    def truncated_tests(self) -> dict[int, float]:
        """Share of truncated answers in the first and the last validation, where they are kept."""
        tests = self.run.evaluations
        return _truncated(self.run.folder, {test.step for test in (*tests[:1], *tests[-1:])})

    # Rollouts

    def total(self, metric: str) -> float:
        return math.fsum(self.run.series(metric).y)

    @cached_property
    def generated(self) -> float:
        return self.run.rollouts or self.total("rollout/generated")

    def share(self, metric: str) -> float:
        """A count as a share of all rollouts."""
        return self.total(metric) / self.generated if self.generated else 0.0

    @property
    def failed(self) -> float:
        return self.share("rollout/failed")

    @property
    def truncated(self) -> float:
        return self.share("rollout/cut_off")

    @property
    def discarded(self) -> float:
        return self.share("select/discarded")

    @property
    def wasted(self) -> float | None:
        """Share of the generated tokens in groups without variance and in failed rollouts."""
        tokens, known = self.total("rollout/tokens"), self.run.has("rollout/wasted")
        return self.total("rollout/wasted") / tokens if tokens and known else None

    @cached_property
    def groups(self) -> Groups:
        return Groups.of(run_folder.log_rows(self.run.folder, "rollouts", optional=True))

    @property
    def limit(self) -> int | None:
        """The token limit; None where answers are longer, as they are of several turns."""
        engine = self.run.config.get("engine")
        limit = engine.get("max_tokens") if isinstance(engine, dict) else None
        if not isinstance(limit, int) or max(self.groups.lengths, default=limit + 1) > limit:
            return None
        return limit

    @cached_property
    def ended(self) -> int | None:
        """Answers that ended before the token limit; None where lengths do not tell."""
        limit = self.limit
        if limit is None:
            return None
        return sum(count for length, count in self.groups.lengths.items() if length < limit)

    @property
    def kinds(self) -> dict[str, float]:
        """Shares of the groups trained on by kind; empty where they are not logged."""
        return _shares(self.groups.kinds)

    @property
    def late_kinds(self) -> dict[str, float]:
        """`kinds` of the last fifth of the groups, or of more if these are few."""
        kinds = self.groups.kinds
        return _shares(kinds[-max(LATE, len(kinds) // PART) :])

    @cached_property
    def missed(self) -> Missed | None:
        """All-fail groups whose answers have the reference; searched if many are all-fail."""
        return missed(self.run.folder) if self.kinds.get("all-fail", 0.0) >= MISSED else None

    @cached_property
    def having(self) -> tuple[int, int]:
        """Answers that have what was expected in them, of those where that can be seen."""
        return having(self.run.folder)

    @property
    def own_reward(self) -> str:
        """The name of a reward function or task of one's own; empty for those of METIS."""
        task = self.run.config.get("task")
        if not isinstance(task, dict):
            return ""
        name = str(task.get("name") or "")
        return str(task.get("reward") or "") or (name if ":" in name else "")

    @cached_property
    def passed(self) -> Passed | None:
        """Rewarded answers without their reference; searched if the reward is one's own."""
        return passed(self.run.folder) if self.own_reward else None

    @cached_property
    def standstill(self) -> notices.Standstill | None:
        return notices.longest_standstill(self.run.metrics)

    @cached_property
    def failures(self) -> list[str]:
        return notices.logged_failures(self.run.folder)

    # Over the steps

    @cached_property
    def answer_length(self) -> tuple[float, float] | None:
        """Mean tokens of a rollout in the first and in the last fifth of the steps."""
        return ends(self.run.share("rollout/tokens", "rollout/generated"))

    def shorter_from(self, length: float) -> int | None:
        """The step from which on rollouts have this mean length at most; None if not in the end."""
        steps, lengths = self.run.share("rollout/tokens", "rollout/generated")
        since = None
        for step, each in zip(steps, lengths, strict=True):
            since = (int(step) if since is None else since) if each <= length else None
        return since

    @cached_property
    def reward(self) -> tuple[float, float] | None:
        """Mean reward of the groups trained on in the first and in the last fifth of the steps."""
        return ends(self.run.series("batch/reward"))

    @cached_property
    def gradient(self) -> tuple[float, float] | None:
        """Median gradient norm in the first and in the last fifth of the steps that have one."""
        for name in GRADIENT_NORMS:
            if self.run.has(name):
                steps, norms = self.run.series(name)
                rows = [(step, norm) for step, norm in zip(steps, norms, strict=True) if norm]
                return ends(Series(tuple(s for s, _ in rows), tuple(n for _, n in rows)))
        return None

    @cached_property
    def divergence(self) -> float:
        """The largest KL divergence of the last fifth of the steps, in nats per token."""
        found = [ends(self.run.series(name)) for name in DIVERGENCES]
        return max((abs(both[1]) for both in found if both), default=0.0)

    @cached_property
    def non_finite(self) -> int:
        """Steps in which a loss or a gradient was not finite."""
        return sum(value > 0 for value in self.run.series("update/non_finite").y)

    # The judge

    @property
    def judged(self) -> bool:
        return self.run.judged

    @property
    def judge(self) -> str:
        """The name of the judge; empty where a curriculum predicts by itself."""
        curriculum = self.run.config.get("curriculum")
        judge = curriculum.get("judge") if isinstance(curriculum, dict) else None
        return str(judge.get("name", "")) if isinstance(judge, dict) else str(judge or "")

    @property
    def unusable(self) -> float:
        """Mean share of judgments without a prediction."""
        return _mean(self.run.series("judge/failure_rate").y)

    @property
    def cut_short(self) -> float:
        """Mean share of truncated judgments."""
        return _mean(self.run.series("judge/failure_cut_off").y)

    @cached_property
    def lift(self) -> Estimate | None:
        """The realised lift over the whole run, from windows of steps that do not overlap."""
        lifts = dict(zip(*self.run.series("judge/realised_lift"), strict=True))
        scores = dict(zip(*self.run.series("judge/realised_lift_z"), strict=True))
        step, window, found = max(lifts, default=0.0), self._window(), []
        while step > 0:
            z = scores.get(step)
            if z:
                found.append(Estimate(lifts[step], lifts[step] / z))
            step = max((each for each in lifts if each <= step - window), default=0.0)
        return mean_over_benchmarks(found) if found else None

    @property
    def helped(self) -> Interval | None:
        """The lift with its interval."""
        return interval(self.lift)

    @property
    def correlation(self) -> float | None:
        """Mean rank correlation of predictions and outcomes in the last fifth of the steps."""
        found = self.run.series("judge/spearman").y
        return _mean(found[-max(1, len(found) // PART) :]) if found else None

    def _window(self) -> int:
        curriculum = self.run.config.get("curriculum")
        trial = curriculum.get("trial") if isinstance(curriculum, dict) else None
        return trial if isinstance(trial, int) and trial > 0 else Judge.trial

    @property
    def outcomes(self) -> float:
        """Outcomes of uniform slots that the judge was measured on."""
        return max(self.run.series("judge/outcomes").y, default=0.0)


def _truncated(folder: Path, steps: set[int]) -> dict[int, float]:
    """Share of truncated validation answers, by step; as far as transcripts can be read."""
    answers, truncated = Counter[int](), Counter[int]()
    names = {transcripts.file_name("eval", step) for step in steps}
    for file in transcripts.segments(folder, "eval"):
        with suppress(Damaged):
            for member in transcripts.segment_members(file) if file.name in names else ():
                with transcripts.as_damage(folder, member.place):
                    step, cut = member.head["step"], [row.get("truncated") for row in member.rows]
                    answers[step] += len(cut)
                    truncated[step] += sum(map(bool, cut))
    return {step: truncated[step] / answers[step] for step in steps if answers[step]}


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _shares(kinds: Sequence[str]) -> dict[str, float]:
    counts = Counter(kinds)
    return {kind: count / counts.total() for kind, count in counts.items()}


def ends(series: Series) -> tuple[float, float] | None:
    """The medians of the first and the last fifth of a curve; None if it is too short for that."""
    if len(series.y) < notices.STEPS:
        return None
    size = len(series.y) // PART
    return median(series.y[:size]), median(series.y[-size:])
