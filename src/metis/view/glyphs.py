"""Sparklines and bars in characters, and compact numbers."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from rich.text import Text

LEVELS = "▁▂▃▄▅▆▇"
"""None as high as the line, so that pictures one above the other stay apart."""
GAP = "·"


def sparkline(
    values: Sequence[float | None],
    width: int,
    low: float,
    high: float,
    style: Callable[[float], str],
) -> Text:
    """A cell for each value, or for the mean of several where there are more than cells."""
    count, cells = len(values), min(width, len(values))
    drawn: list[tuple[str, str]] = []
    for cell in range(cells):
        part = values[cell * count // cells : (cell + 1) * count // cells]
        numbers = [value for value in part if value is not None]
        if not numbers:
            drawn.append((GAP, "dim"))
            continue
        mean = sum(numbers) / len(numbers)
        level = int((mean - low) / (high - low) * len(LEVELS))
        drawn.append((LEVELS[min(len(LEVELS) - 1, max(0, level))], style(mean)))
    line = Text()
    for shade, run in groupby(drawn, key=lambda cell: cell[1]):
        line.append("".join(character for character, _ in run), shade)
    line.pad_right(width - cells)
    return line


def bar(fraction: float, width: int, style: str) -> Text:
    """A bar of which this fraction is filled."""
    done, half = divmod(round(min(1.0, max(0.0, fraction)) * width * 2), 2)
    return Text.assemble(("━" * done + "╸" * half, style), ("─" * (width - done - half), "dim"))


def stacked(parts: Mapping[str, float], width: int, fills: Mapping[str, tuple[str, str]]) -> Text:
    """A bar cut in proportion to its parts; a fill is a character and a style."""
    total = sum(parts.values())
    line = Text()
    reached = 0.0
    for name, part in parts.items():
        character, style = fills[name]
        begin, reached = reached, reached + (part / total if total else 0.0)
        line.append(character * (round(reached * width) - round(begin * width)), style)
    line.pad_right(width - len(line))
    return line


def compact(number: float) -> str:
    """A whole number, in thousands, millions or billions where it is long."""
    if number < 9_999.5:
        return f"{number:,.0f}"
    for unit in ("k", "M"):
        number /= 1000
        if number < 999.5:
            return f"{number:.3g}{unit}"
    return f"{number / 1000:.3g}G"


def clock(seconds: float) -> str:
    """Seconds as a clock shows them: 1:05, or 2:00:07."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def plus_minus(error: float | None) -> str:
    """A standard error after its number; nothing where it is not known."""
    return "" if error is None else f" ± {error:.3f}"
