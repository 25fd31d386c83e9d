"""The live panel: a dozen lines about a run, redrawn in place."""

from dataclasses import dataclass, field
from itertools import chain

from rich.box import ROUNDED
from rich.console import Console, ConsoleOptions, RenderResult
from rich.panel import Panel
from rich.segment import Segment
from rich.text import Text

from metis.run.recorded import PHASES
from metis.signal import VARIANCE_MAX
from metis.view.glyphs import bar, clock, compact, plus_minus, sparkline, stacked
from metis.view.history import Pace, StepHistory

WIDEST = 140
LABEL, REMARK, LEAST = 13, 46, 8
"""Columns of a label, of the words after a picture, and the least that makes a picture."""

COLOURS = dict(zip(PHASES, ("magenta", "yellow", "cyan", "green", "blue"), strict=True))
"""Colours of the terminal's own palette, which suits its background."""

FILL, SHADES = "▆", "█▓▒░▚"
"""Fillings of the parts of a bar: one character in colours, or one for each without them."""

DOING = {
    "evaluate": "testing on held-out prompts",
    "judge": "judging",
    "select": "reading candidates",
    "rollout": "rolling out",
    "update": "updating",
    "save": "saving",
}
"""Phases in words."""


@dataclass(frozen=True)
class Heading:
    """The name of a run, and the measure of its budget."""

    title: str
    folder: str
    steps: int
    by_steps: bool = True
    simulated: bool = False


@dataclass
class LivePanel:
    """Draws the state of a run at whatever size the terminal has; a drawing that fails says so."""

    heading: Heading
    history: StepHistory
    pace: Pace
    doing: str = ""
    counted: tuple[int, int] | None = None
    """Held-out prompts that are answered, of how many, in a test."""
    stopping: bool = False
    drawn: tuple[int, int] = field(init=False, default=(0, 0))
    """Columns and lines of the last drawing."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, WIDEST)
        try:
            fresh = options.update(width=width, no_wrap=False, overflow="ellipsis", height=None)
            coloured = console.color_system is not None and not console.no_color
            parts = self._parts(width - 4, coloured)
            frame = self._frame(_fitting(parts, options.size.height - 4), width)
            lines = console.render_lines(frame, fresh, pad=False)
        except Exception as error:  # a run is worth more than its picture
            note = Text(f"step {self.history.step}: the view cannot be drawn ({error!r})")
            lines = console.render_lines(note, options.update(overflow="ellipsis", no_wrap=True))
        self.drawn = width, len(lines)
        for line in lines:
            yield from line
            yield Segment.line()

    def _frame(self, rows: list[Text], width: int) -> Panel:
        folder, room = self.heading.folder, width - 8
        short = folder if len(folder) <= room else f"…{folder[1 - room :]}"
        return Panel(
            Text("\n").join(rows),
            box=ROUNDED,
            border_style="dim",
            title=Text(self.heading.title, "bold not dim"),
            title_align="left",
            subtitle=Text(short, "not dim"),
            subtitle_align="right",
            padding=(0, 1),
        )

    def _parts(self, room: int, coloured: bool) -> list[list[Text]]:
        """Rows on progress, on learning and on costs."""
        picture = room - LABEL - REMARK
        picture = picture if picture >= LEAST else 0
        learning = [
            self._reward(picture),
            self._variance(picture),
            self._informative(picture),
            self._held_out(picture),
            self._judge(picture),
        ]
        costs = [*self._time(picture, room, coloured), self._rollouts()]
        parts = [[self._progress(picture)], learning, costs]
        for row in chain(*parts):
            row.truncate(room, overflow="ellipsis")
        return parts

    def _progress(self, width: int) -> Text:
        history, heading = self.history, self.heading
        done = f"{history.step:,}/{heading.steps:,}"
        done = done if heading.by_steps else f"{history.step:,} · {history.fraction:.0%} of budget"
        if self.stopping:
            time = "stopping after this step"
        else:
            left = self.pace.remaining
            time = f"{clock(self.pace.elapsed)} elapsed"
            time += "" if left is None or history.fraction >= 1 else f" · {clock(left)} left"
        return _row("step", bar(history.fraction, width, "bold green"), done, f" · {time}")

    def _reward(self, width: int) -> Text:
        def style(value: float) -> str:
            return "green" if abs(value - 0.5) <= 0.15 else "yellow"

        line = sparkline(self.history.series["batch/reward"], width, 0.0, 1.0, style)
        reward = self.history.latest.get("batch/reward")
        if reward is not None:
            return _row("reward", line, f"{reward:.3f}", " · most is learnt around 0.5")
        started = self.history.step and not self.history.trained
        return _row("reward", line, "", self.history.idle if started else "")

    def _variance(self, width: int) -> Text:
        values = self.history.series["batch/variance"]
        line = sparkline(values, width, 0.0, VARIANCE_MAX, lambda _: "cyan")
        if (value := self.history.latest.get("batch/variance")) is None:
            return _row("variance", line, "", "")
        return _row("variance", line, f"{value:.3f}", f" · {VARIANCE_MAX:g} at most")

    def _informative(self, width: int) -> Text:
        values = self.history.series["batch/informative"]
        line = sparkline(values, width, 0.0, 1.0, lambda _: "cyan")
        if (value := self.history.latest.get("batch/informative")) is None:
            return _row("informative", line, "", "")
        return _row("informative", line, f"{value:.0%}", " of the groups trained on")

    def _held_out(self, width: int) -> Text:
        history = self.history
        values = history.series["eval/accuracy"]
        if not history.tested or history.start is None or history.best is None:
            return _row("held-out", Text(" " * width), "", "")
        accuracy, error = history.tested
        accuracies = [history.start, *(value for value in values if value is not None)]
        low, high = min(accuracies), max(accuracies)
        margin = max(0.0, 0.02 - (high - low)) / 2
        line = sparkline(values, width, low - margin, high + margin, lambda _: "blue")
        remark = f"{plus_minus(error)} before training"
        if history.tested_at:
            remark = f"{plus_minus(error)} · start {history.start:.3f} · best {history.best:.3f}"
        return _row("held-out", line, f"{accuracy:.3f}", remark)

    def _judge(self, width: int) -> Text:
        def style(value: float) -> str:
            return "magenta" if value > 0 else "red"

        state = self.history.judge
        if state is None:
            return _row("judge", Text(" " * width), "", "none" if self.history.step else "")
        values = self.history.series["judge/spearman"]
        line = sparkline(values, width, 0.0, 1.0, style)
        latest, remark = self.history.latest, ""
        if (correlation := latest.get("judge/spearman")) is not None:
            remark += f" · Spearman {correlation:.2f}"
        if (failures := latest.get("judge/failure_rate")) is not None:
            remark += f" · {failures:.0%} failed"
        return _row("judge", line, state, remark)

    def _time(self, width: int, room: int, coloured: bool) -> list[Text]:
        spent = self.history.phases
        names = [*(name for name in PHASES if name in spent), *sorted(set(spent) - set(PHASES))]
        phases = {name: max(0.0, spent[name]) for name in names}
        fills = {
            name: (FILL if coloured else SHADES[i % len(SHADES)], COLOURS.get(name, "red"))
            for i, name in enumerate(phases)
        }
        total = sum(phases.values())
        now = tested(*self.counted) if self.counted else DOING.get(self.doing, self.doing)
        pace, remark = "", now
        if phases:
            simulated = ", simulated" if self.heading.simulated else ""
            pace, remark = f"{total:.3g} s", f" a step{simulated}" + (f" · {now}" if now else "")
        shares = [
            Text.assemble(fills[name], f" {name} {seconds / (total or 1):.0%}")
            for name, seconds in phases.items()
        ]
        legend = Text("   ").join(shares)
        if LABEL + len(legend) > room:
            legend = Text(" ").join(shares)
        row = _row("time", stacked(phases, width, fills), pace, remark)
        return [row, Text.assemble(" " * LABEL, legend)]

    def _rollouts(self) -> Text:
        latest = self.history.latest
        if not (generated := latest.get("total/rollout_generated")):
            return _row("rollouts", Text(), "", "")
        counts = {
            "generated": generated,
            "trained on": latest.get("total/rollout_trained", 0.0),
            "discarded": self.history.discarded,
            "tokens": latest.get("total/rollout_tokens", 0.0),
            "failed": latest.get("total/rollout_failed") or None,
            "tokens of judgments": latest.get("total/judge_tokens") or None,
        }
        shown = (f"{compact(n)} {what}" for what, n in counts.items() if n is not None)
        return _row("rollouts", Text(), "", ", ".join(shown))


def tested(done: int, total: int) -> str:
    """The progress of a test."""
    return f"tested {done:,} of {total:,} prompts"


def _row(label: str, picture: Text, value: str, remark: str) -> Text:
    gap = "  " if len(picture) else ""
    return Text.assemble((f"{label:<{LABEL}}", "dim"), picture, gap, (value, "bold"), remark)


def _fitting(parts: list[list[Text]], height: int) -> list[Text]:
    """The rows that fit: all parts, spaced if there is room, else the first rows, at least one."""
    rows = [*chain(*parts)]
    if len(rows) + len(parts) - 1 <= height:
        rows = [row for part in parts for row in (*part, Text())][:-1]
    return rows[: max(1, height)]
