"""What a person sees of a run: a live bar on a terminal, plain lines anywhere else."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from metis import runlog

SHOWN = {
    "reward": "batch/reward",
    "v": "batch/variance",
    "informative": "batch/informative",
    "judge ρ": "judge/spearman",
    "accuracy": "eval/accuracy",
}
"""Metrics worth a place on one line, by the name they are shown under."""


class TerminalView:
    """Shows a run on `console`; on a terminal the last line is a progress bar."""

    def __init__(self, console: Console, steps: int, every: int) -> None:
        self.console = console
        self.steps = steps
        self.every = max(1, every)
        self.latest: dict[str, float] = {}
        self.unread = False
        self.bar = Progress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(bar_width=24),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=console,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task("", total=steps or None)

    def __enter__(self) -> "TerminalView":
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        self.latest |= {name: metrics[key] for name, key in SHOWN.items() if key in metrics}
        line = " · ".join(f"{name} {value:.3f}" for name, value in self.latest.items())
        self.bar.update(self.task, completed=step, description=line)
        if not self.console.is_terminal and (step % self.every == 0 or step == self.steps):
            self._print(f"step {step}{f'/{self.steps}' if self.steps else ''} · {line}")

    def notice(self, step: int, text: str) -> None:
        self._print(f"step {step}: {text}", style="yellow")

    def _print(self, line: str, style: str | None = None) -> None:
        """A reader that went away (`| head`) must not end the training."""
        if not self.unread:
            try:
                self.console.print(line, style=style)
            except SystemExit:  # what rich makes of a broken pipe
                self.unread = True


def summary(folder: Path) -> list[str]:
    """What happened in a finished run, in a few lines."""
    rows, timings = runlog.read(folder, "metrics"), runlog.read(folder, "timings")
    tested = [row for row in rows if "eval/accuracy" in row]
    first, last = tested[0]["eval/accuracy"], tested[-1]["eval/accuracy"]
    steps = [row for row in rows if "batch/informative" in row]
    informative = sum(row["batch/informative"] for row in steps) / max(1, len(steps))
    seconds = timings[-1]["elapsed"]
    judging = sum(row.get("judge", 0.0) for row in timings)
    clock = "simulated seconds" if "simulated/ability" in rows[-1] else "seconds"
    generated = int(rows[-1].get("total/rollout_generated", 0))
    best = max(tested, key=lambda row: float(row["eval/accuracy"]))
    reached = next((row["elapsed"] for row in timings if row["step"] == best["step"]), 0.0)
    lines = [
        f"held-out accuracy {first:.3f} → {last:.3f} in {rows[-1]['step']} steps; best "
        f"{best['eval/accuracy']:.3f} at step {best['step']}, after {reached:,.0f} {clock}",
        f"{generated:,} rollouts, {informative:.0%} of the groups trained on were informative",
    ]
    if judging:
        lines.append(f"judging took {judging / seconds:.1%} of {seconds:,.0f} {clock}")
    return [*lines, f"run folder: {folder}"]
