"""Markdown on a terminal: laid out to its width, and tables that do not fit as lists of rows."""

from collections.abc import Sequence
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, TableElement
from rich.measure import Measurement, measure_renderables
from rich.table import Column, Table

_ANY_WIDTH = 10_000


class _Fitted(TableElement):
    """A table whose words are whole: a list of its rows where they cannot be in columns."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            assert isinstance(table, Table)
            wide = options.update(width=_ANY_WIDTH)
            room = options.max_width - Measurement.get(console, wide, table).minimum
            if room < 0:
                yield _listed(table)
            else:
                _widen(table, [_measured(console, wide, column) for column in table.columns], room)
                yield table


def _measured(console: Console, options: ConsoleOptions, column: Column) -> Measurement:
    return measure_renderables(console, options, [column.header, *column.cells])


def _widen(table: Table, needs: Sequence[Measurement], room: int) -> None:
    """Columns as wide as their longest words, and of the room what each needs for whole lines."""
    wanted = sum(need.span for need in needs)
    for column, need in zip(table.columns, needs, strict=True):
        share = need.span * room // wanted if wanted > room else need.span
        column.width = need.minimum + share


def _listed(table: Table) -> Table:
    """The rows of a table one below the other, each cell beside the name of its column."""
    listed = Table.grid(padding=(0, 2))
    first, *others = table.columns
    for place, title in enumerate(first.cells):
        listed.add_row(title)
        for column in others:
            listed.add_row(column.header, list(column.cells)[place])
        listed.add_row()
    return listed


class _Page(Markdown):
    elements: ClassVar = {**Markdown.elements, "table_open": _Fitted}


def print_markdown(text: str) -> None:
    """Print Markdown: laid out to the width of a terminal, and as it is written anywhere else."""
    console = Console()
    if console.is_terminal:
        console.print(_Page(text))
    else:
        print(text)
