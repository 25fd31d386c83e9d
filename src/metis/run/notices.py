"""Notices of a run: groups without variance, truncated answers, failed rollouts.

Their remedies are also those of surveys and diagnoses.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from metis.run import folder as run_folder
from metis.run.statistics import mean

LONGER = "raise engine.max_tokens, or ask for shorter answers"
"""The remedy for truncated answers."""
MEND = "fix the task or its reward first"
"""The remedy for failed rollouts."""
EASIER = "take easier prompts, a better model, a reward with partial credit, or larger groups"
"""The remedy for all-fail prompts."""
HARDER = "take harder prompts"
"""The remedy for all-pass prompts."""


def sentence(text: str) -> str:
    """Capitalise the first letter."""
    return text[:1].upper() + text[1:]


STEPS = 10
"""Consecutive steps without an informative group after which there is a notice."""
MOSTLY = 0.5
"""Share of answers beyond which what is wrong with them is said to be wrong with the run."""
FAILED = "a rollout failed: "
MORE = "; more of this kind are counted, not shown"


@dataclass
class Standstill:
    """Consecutive steps with rollouts but without an informative group."""

    steps: int = 0
    rollouts: int = 0
    last: int = 0
    """The last of these steps."""
    rewards: tuple[float, ...] = ()
    """The mean reward of each of these steps that trained on a group."""
    told: bool = False

    def add(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a step; one without rollouts is ignored."""
        if not metrics.get("rollout/generated"):
            return
        if _varied(metrics):
            self.steps, self.rollouts, self.rewards = 0, 0, ()
            return
        self.steps, self.last = self.steps + 1, step
        self.rollouts += int(metrics["rollout/generated"])
        if "batch/reward" in metrics:
            self.rewards += (metrics["batch/reward"],)

    def notices(self, step: int, metrics: Mapping[str, float], folder: Path) -> list[str]:
        """The notice once there are `STEPS` such steps; only once in a run."""
        self.add(step, metrics)
        if self.told or self.steps < STEPS:
            return []
        self.told = True
        return [f"{self.described}. {self.remedy(folder)}"]

    @property
    def described(self) -> str:
        steps = f"for {self.steps:,} steps" if self.steps > 1 else f"in step {self.last:,}"
        reward = f", mean reward {mean(self.rewards).mean:.2g}" if self.rewards else ""
        return (
            f"no group had any reward variance {steps} ({self.rollouts:,} rollouts{reward}): all "
            "advantages are 0, so there is no gradient"
        )

    def remedy(self, folder: Path) -> str:
        return f"Look at the answers: metis inspect {folder} --step {self.last}"


def longest_standstill(rows: Iterable[Mapping[str, float]]) -> Standstill | None:
    """The longest standstill in the metrics of a run; None if short and not the whole run."""
    stretch, found = Standstill(), Standstill()
    played = 0
    for row in rows:
        played += bool(row.get("rollout/generated"))
        stretch.add(int(row["step"]), row)
        if stretch.steps > found.steps:
            found = replace(stretch)
    return found if found.steps >= min(STEPS, max(1, played)) else None


def _varied(metrics: Mapping[str, float]) -> bool:
    """True if a group of the step, trained on or not, was informative."""
    played, wasted = (metrics.get(f"rollout/{what}", 0.0) for what in ("tokens", "wasted"))
    return metrics.get("batch/informative", 0.0) > 0 or wasted < played


class Truncations:
    """Watches for truncated answers; `limit` is the setting that truncates them."""

    def __init__(self, limit: str) -> None:
        self.limit = limit
        self.told = False

    def notices(self, counts: Mapping[str, int]) -> list[str]:
        """The notice of the first step in which most answers were truncated; only once."""
        cut, generated = counts["rollout/cut_off"], counts["rollout/generated"]
        if self.told or cut <= MOSTLY * generated:
            return []
        self.told = True
        return [
            f"{cut / generated:.0%} of the answers ({cut:,} of {generated:,}) were truncated at "
            f"{self.limit} (scored on what was there): {LONGER}"
        ]


def failure_notice(reason: str) -> str:
    """The notice for the first failure of a kind."""
    return f"{FAILED}{reason}{MORE}"


def logged_failures(folder: Path) -> list[str]:
    """The first failure of each kind, from a run's logged notices."""
    rows = run_folder.log_rows(folder, "notices", optional=True)
    texts = [row["text"] for row in rows if row["text"].startswith(FAILED)]
    return [text.removeprefix(FAILED).removesuffix(MORE) for text in texts]
