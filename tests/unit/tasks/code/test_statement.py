"""The judge's view of a statement: prose, without its formal sections."""

import pytest

from metis.tasks.code.statement import PROGRAM, prose, wrap

STORY = "Johnny picks a number n (1 <= n <= 10^9).\n\nHow often did he lie?"


@pytest.mark.parametrize(
    "heading",
    [
        *("Input", "Output", "Constraints", "Examples", "Note", "Notes", "-----Input-----"),
        *("Input:", "### Input", "**Constraints**", "Sample Input 1", "Example 1:", "Input Format"),
        *("Sample Input", "Example Output", "Explanation", "Output Specification", "SUBTASKS"),
        *("Scoring", "Sample Cases", "Example", "Examples:", "Constraint:"),
    ],
)
def test_formal_sections_are_left_out(heading):
    assert prose(f"{STORY}\n\n{heading}\nThe first line has t.\n") == STORY


def test_prose_goes_on_after_another_heading():
    text = f"## Problem\n{STORY}\n\n## Input\nOne line.\n\n## Story\nMore of it."
    assert prose(text) == f"## Problem\n{STORY}\n\n## Story\nMore of it."


def test_a_sentence_about_the_input_stays():
    text = "The input is sorted.\nOutput the largest number that you can find in it."
    assert prose(text) == text


def test_a_statement_of_nothing_else_stays_whole():
    assert prose("Input\nTwo numbers.\n\nOutput\nTheir sum.\n").startswith("Input")


def test_the_chat_holds_statement_and_instruction():
    assert wrap(STORY, PROGRAM) == [{"role": "user", "content": f"{STORY}\n\n{PROGRAM}"}]
