"""The steps of a run so far, for display, and an estimate of the time left."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

RECENT = 20
"""Steps over which the seconds of a step, and the pace of a run, are averaged."""

SERIES = (
    "batch/reward",
    "batch/variance",
    "batch/informative",
    "judge/spearman",
    "eval/accuracy",
)
"""Metrics of which every step is kept, None where a step has none."""


@dataclass
class StepHistory:
    """The steps of a run so far; grows by one with every `add`, and is only read otherwise."""

    step: int = 0
    fraction: float = 0.0
    """Share of the budget that is spent."""
    latest: Mapping[str, float] = field(default_factory=dict)
    """All metrics of the last step."""
    series: dict[str, list[float | None]] = field(
        default_factory=lambda: {name: [] for name in SERIES}
    )
    tested: tuple[float, float | None] | None = None
    """The last accuracy on the held-out prompts, and its standard error."""
    tested_at: int = 0
    """The step of that."""
    start: float | None = None
    best: float | None = None
    discarded: float = 0.0
    timings: list[Mapping[str, float]] = field(default_factory=list)

    def add(
        self,
        step: int,
        fraction: float,
        metrics: Mapping[str, float],
        seconds: Mapping[str, float],
    ) -> None:
        """Take in a step; step 0 is the test before training."""
        self.step, self.fraction, self.latest = step, fraction, metrics
        self.discarded += metrics.get("select/discarded", 0.0)
        if (accuracy := metrics.get("eval/accuracy")) is not None:
            self.tested, self.tested_at = (accuracy, metrics.get("eval/stderr")), step
            self.start = accuracy if self.start is None else self.start
            self.best = accuracy if self.best is None else max(self.best, accuracy)
        if step:
            for name, values in self.series.items():
                values.append(metrics.get(name))
            if accuracy is None and self.tested:
                self.series["eval/accuracy"][-1] = self.tested[0]
            self.timings = [*self.timings[1 - RECENT :], seconds]

    @property
    def phases(self) -> dict[str, float]:
        """Mean seconds of every phase in the last steps."""
        names = {name for seconds in self.timings for name in seconds}
        return {
            name: sum(seconds.get(name, 0.0) for seconds in self.timings) / len(self.timings)
            for name in names
        }

    @property
    def trained(self) -> bool:
        """True where the last step had groups to train on."""
        return self.latest.get("batch/groups", 0.0) > 0

    @property
    def idle(self) -> str:
        """What a step without training was for."""
        if (measured := self.latest.get("select/measured")) is not None:
            return f"measuring, {measured:,.0f} prompts so far"
        return "no update in this step"

    @property
    def judge(self) -> str | None:
        """The judge's part: on trial it chooses half of the batch; None without a judge."""
        if not any(name.startswith("judge/") for name in self.latest):
            return None
        return "on trial" if self.latest.get("select/trial") else "selecting"


class Pace:
    """The time a run has taken since this was made, and an estimate of what is left."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.began = clock()
        self.marks: list[tuple[float, float]] = []

    def mark(self, fraction: float) -> None:
        """Note that so much of the budget is spent by now."""
        self.marks = [*self.marks[-RECENT:], (self.clock(), fraction)]

    @property
    def elapsed(self) -> float:
        return self.clock() - self.began

    @property
    def remaining(self) -> float | None:
        """Seconds left at the pace of the last steps; None before there is one."""
        marks = self.marks
        if len(marks) < 2 or marks[-1][1] <= marks[0][1]:
            return None
        (first, spent), (last, now) = marks[0], marks[-1]
        left = (1.0 - now) * (last - first) / (now - spent)
        return max(0.0, left - (self.clock() - last))
