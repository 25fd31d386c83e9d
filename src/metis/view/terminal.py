"""Shows a run in progress, without ever blocking it.

A thread of its own redraws the panel a few times a second; a step of the run leaves its numbers and
goes on. A terminal that is closed, or a reader that goes away, ends the showing, not the run.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleRenderable
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.text import Text

from metis.config import Config
from metis.curricula.registry import presets
from metis.run.recorded import phase_seconds
from metis.run.waiting import Heartbeat
from metis.view.glyphs import clock, plus_minus
from metis.view.history import Pace, StepHistory
from metis.view.panel import DOING, Heading, LivePanel, tested

REFRESH = 2.0
"""Drawings a second."""

WAIT = 30.0
"""Seconds without a line after which there is one, about a step or how far a test has come."""

SOME = 0.1
"""Share of a test that is answered before the time left is estimated."""

SHOWN = {
    "reward": "batch/reward",
    "v": "batch/variance",
    "informative": "batch/informative",
    "judge ρ": "judge/spearman",
}
"""Metrics worth a place on one line, by the name they are shown under."""

STOPPING = "stopping after this step; once more stops at once"


def heading(config: Config, folder: Path) -> Heading:
    """Curriculum, model, task and engine of a run."""
    resolved, training = config.resolved, config.training
    preset = resolved["curriculum"].get("preset", "")
    usual = next(iter(presets(config.curriculum_name) or {"": {}}))
    model = Path(str(resolved["engine"].get("model", ""))).name
    parts = [
        config.curriculum_name + ("" if preset == usual else f" ({preset})"),
        model,
        resolved.get("task", {}).get("name", ""),
        f"{config.engine_name} engine",
    ]
    by_steps = not (training.tokens or training.processed or training.seconds)
    title = " · ".join(filter(None, parts))
    simulated = config.engine_name == "simulated"
    return Heading(title, str(folder), training.steps, by_steps, simulated)


class TerminalView:
    """Shows a run on `console`: a panel that stays below the notices, or a line now and then."""

    def __init__(self, console: Console, heading: Heading, every: int) -> None:
        self.console = console
        self.heading = heading
        self.every = max(1, every)
        self.history = StepHistory()
        self.pace = Pace(time.monotonic)
        self.panel = LivePanel(heading, self.history, self.pace)
        self.counting = threading.Lock()
        self.said = self.printed = self.phase_began = self.pace.began
        self.heartbeat = Heartbeat(self.beat)
        self.live: SteadyLive | None = None
        if console.is_interactive and not console.options.ascii_only:
            self.live = SteadyLive(self.panel, console)

    def __enter__(self) -> "TerminalView":
        if not self.live:
            self._print(Text(f"{self.heading.title} → {self.heading.folder}"))
        if self.heading.simulated:
            self._print(Text("a simulated learner, not a language model: it exercises the loop"))
        if self.live and not shielded(self.console, self.live.start):
            self.live = None
        self.heartbeat.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.heartbeat.__exit__()
        self.panel.doing = ""
        if self.live:
            shielded(self.console, self.live.stop)

    def resume(
        self,
        step: int,
        fraction: float,
        metrics: Sequence[Mapping[str, float]],
        timings: Sequence[Mapping[str, float]],
    ) -> None:
        """Continue a resumed run, with the earlier steps from its logs."""
        seconds = {row["step"]: phase_seconds(row) for row in timings}
        for row in metrics:
            self.history.add(int(row["step"]), fraction, row, seconds.get(row["step"], {}))
        self.pace.mark(fraction)
        self.notice(step, "resuming from here")

    def phase(self, name: str) -> None:
        self.panel.doing, self.panel.counted = name, None
        self.said = self.phase_began = self.pace.clock()

    def count(self, done: int, total: int) -> None:
        """Show the progress of a validation; called from the engine's threads."""
        with self.counting:
            self.panel.counted = (done, total)
            if not self.live and self.pace.clock() - self.said >= WAIT:
                self._say_so_far()

    def beat(self) -> None:
        """Without a panel: after a long silence, print what is going on."""
        with self.counting:
            silent = self.pace.clock() - self.printed
            if not self.live and self.panel.doing and silent >= WAIT:
                self._say_so_far()

    def _say_so_far(self) -> None:
        """A line about the phase, with the time that is left of a test at its pace so far."""
        self.said = self.pace.clock()
        spent = self.said - self.phase_began
        if self.panel.counted is None:
            text = f"{DOING.get(self.panel.doing, self.panel.doing)}, for {clock(spent)} so far"
        else:
            done, total = self.panel.counted
            text = tested(done, total)
            if done >= SOME * total:  # the first answers are the short ones
                text += f" · about {clock(spent / done * (total - done))} left"
        self._print(Text(text))

    def step(
        self,
        step: int,
        fraction: float,
        metrics: Mapping[str, float],
        seconds: Mapping[str, float],
    ) -> None:
        self.history.add(step, fraction, metrics, seconds)
        self.pace.mark(fraction)
        silent = self.pace.clock() - self.printed
        due = step % self.every == 0 or fraction >= 1 or silent >= WAIT
        if not self.live and due:
            self._print(Text(self._line()))

    def notice(self, step: int, text: str) -> None:
        self._print(Text.assemble((f"step {step}: ", "bold cyan"), text))

    def stopping(self) -> None:
        self.panel.stopping = True
        if not self.live:  # called by a signal, which may have come amid the printing of a line
            threading.Thread(target=self._print, args=[Text(STOPPING)]).start()

    def _line(self) -> str:
        """The last step as one line."""
        history = self.history
        metrics = history.latest
        steps = self.heading.steps
        parts = [f"step {history.step}/{steps}" if steps else f"step {history.step}"]
        parts += [f"{name} {metrics[key]:.3f}" for name, key in SHOWN.items() if key in metrics]
        if history.step and not history.trained:
            parts.append(history.idle)
        if "eval/accuracy" in metrics:
            error = plus_minus(metrics.get("eval/stderr"))
            parts.append(f"held-out accuracy {metrics['eval/accuracy']:.3f}{error}")
        if (left := self.pace.remaining or 0.0) >= 1.0:
            parts.append(f"{clock(left)} left")
        return " · ".join(parts)

    def _print(self, text: Text) -> None:
        self.printed = self.pace.clock()
        whole = self.live is None  # a terminal gets words wrapped, a file whole lines
        shielded(self.console, lambda: self.console.print(text, soft_wrap=whole))


class SteadyLive(Live):
    """A live display that outlives the terminal, and cleans up after a window made narrower."""

    def __init__(self, panel: LivePanel, console: Console) -> None:
        self.panel = panel
        super().__init__(
            panel,
            console=console,
            refresh_per_second=REFRESH,
            redirect_stderr=sys.stderr.isatty(),
        )

    def refresh(self) -> None:
        shielded(self.console, super().refresh)

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Wipe the lines that a narrower terminal has wrapped, before the rest is wiped."""
        width, height = self.panel.drawn
        wrapped = height * ((width - 1) // self.console.width) if width else 0
        line: list[Any] = [(ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)]
        return [Control(*line * wrapped), *super().process_renderables(renderables)]


def shielded(console: Console, show: Callable[[], None]) -> bool:
    """Print; after the terminal is gone, print nothing more."""
    try:
        show()
    except (OSError, SystemExit):  # rich makes a SystemExit of a broken pipe
        console.quiet = True
    return not console.quiet
