"""Shows a run: a live panel on a terminal, plain lines elsewhere."""

from metis.view.summary import summary
from metis.view.terminal import TerminalView, heading

__all__ = ["TerminalView", "heading", "summary"]
