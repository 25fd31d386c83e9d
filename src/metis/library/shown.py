"""Views of results: a line as repr, a table for rich, the same as HTML in a notebook."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from metis.errors import MetisError
from metis.text import printable

if TYPE_CHECKING:
    from rich.table import Table

Facts = Mapping[str, int | str]
"""What there is to say, by name; whole numbers are counts."""


class Shown(ABC):
    """A result with a title and facts; `BRIEF` names those of one line."""

    BRIEF: ClassVar[tuple[str, ...]]

    @property
    @abstractmethod
    def title(self) -> str:
        """What it is, and where."""

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """What is known of it."""

    def __repr__(self) -> str:
        facts = self._known()
        said = [_phrase(name, facts[name]) for name in self.BRIEF if name in facts]
        return f"<{_safe(self.title)}: {', '.join(said)}>"

    def __rich__(self) -> "Table":
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(_safe(self.title)), title_justify="left", show_header=False)
        for name, value in self._known().items():
            table.add_row(Text(_safe(name)), Text(_value(value)))
        return table

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(_safe(name))}</th><td>{escape(_value(value))}</td></tr>"
            for name, value in self._known().items()
        )
        return f"<table><caption>{escape(_safe(self.title))}</caption><tbody>{rows}</tbody></table>"

    def _known(self) -> Facts:
        """The facts, or why there are none: showing a result raises nothing."""
        try:
            return self.facts
        except MetisError as error:
            return {self.BRIEF[0]: f"unknown, {error}"}


def _phrase(name: str, value: int | str) -> str:
    if isinstance(value, int):
        return f"{value:,} {name.removesuffix('s') if value == 1 else name}"
    return _safe(f"{name} {value}")


def _value(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else _safe(value)


def _safe(text: str) -> str:
    return printable(" ".join(text.split()))


class Transcribed(Shown):
    """A result with transcripts in its folder."""

    path: Path

    def export_messages(self, file: str | Path) -> Path:
        """Write a JSONL row per rollout, as `metis export --messages` does; returns the file."""
        from metis.export.messages import write_messages

        target = Path(file).expanduser()
        write_messages(self.path, target)
        return target

    def export_inspect(self, folder: str | Path) -> Path:
        """Write logs for `inspect view`, as `metis export --inspect` does; returns their folder."""
        from metis.export.inspect_logs import write_logs

        target = Path(folder).expanduser()
        write_logs(self.path, target)
        return target
