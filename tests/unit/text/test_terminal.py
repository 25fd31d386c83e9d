"""Markdown on a terminal: no line wider than it, no word lost."""

import io
import re

import pytest

from metis.text import markdown_table, plain
from metis.text.terminal import print_markdown

NAMES = ["run", "accuracy before", "accuracy after", "informative groups", "rollouts", "elapsed"]
ROWS = [NAMES, ["metis · seed 0", "0.406 ± 0.018", "0.528 ± 0.018", "85.2%", "25,600", "86.1 s"]]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def shown(monkeypatch):
    def on_a_terminal(text, width):
        terminal = Terminal()
        monkeypatch.setattr("sys.stdout", terminal)
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERM", "xterm")
        print_markdown(text)
        return re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())

    return on_a_terminal


@pytest.mark.parametrize("width", [30, 50, 80, 120])
def test_a_table_fits_the_terminal_and_every_word_of_it_is_there(shown, width):
    text = shown(markdown_table(ROWS), width)
    assert all(len(line) <= width for line in text.splitlines())
    assert "…" not in text
    assert all(word in text for cell in [*NAMES[1:], *ROWS[1]] for word in cell.split())


@pytest.mark.parametrize("width", range(40, 121, 8))
def test_long_names_are_not_cut_for_the_sake_of_columns_that_could_wrap(shown, width):
    text = shown(markdown_table([*ROWS, ["metis-explored-first", *ROWS[1][1:]]]), width)
    assert all(len(line) <= width for line in text.splitlines())
    assert all(word in text for word in ("metis-explored-first", "informative", "accuracy"))


def test_a_table_that_does_not_fit_is_a_list_of_its_rows(shown):
    assert re.search(r"accuracy before +0\.406 ± 0\.018 *\n", shown(markdown_table(ROWS), 50))
    assert re.search(r"0\.406 ± 0\.018 +0\.528 ± 0\.018", shown(markdown_table(ROWS), 120))


def test_elsewhere_it_is_printed_as_it_is_written(capsys):
    text = markdown_table(ROWS)
    print_markdown(text)
    assert capsys.readouterr().out == f"{text}\n"


def test_text_that_is_no_markup_is_shown_whole(shown):
    said = r"failed: __init__() got <b>an</b> [unexpected] *args | C:\new `x`"
    assert said in shown(f"- {plain(said)}\n", 120)
