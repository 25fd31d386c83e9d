"""Tables in Markdown, aligned so that they also read well as text; and text that is no markup."""

import re
from collections.abc import Sequence

from metis.printable import printable


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a table; the first is its header."""
    cells = [[_cell(text) for text in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """Text that is shown as it is: nothing in it is markup."""
    return re.sub(r"([\\`*_<>\[\]|])", r"\\\1", printable(text))


def _cell(text: str) -> str:
    words = " ".join(text.split())
    return printable(words).replace("\\", "\\\\").replace("|", "\\|")
