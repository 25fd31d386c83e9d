"""The program of a response: the right block, whole, and never a guess."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metis.tasks.code.extraction import program

CODE = "def f(x):\n    return x + 1\n"


def fenced(code, mark="python"):
    return f"```{mark}\n{code}```\n"


@pytest.mark.parametrize("mark", ["python", "Python", "py", "python3", ""])
def test_a_block_is_the_program(mark):
    assert program(f"Here it is.\n{fenced(CODE, mark)}Done.") == CODE


def test_the_last_block_counts():
    assert program(fenced("x = 1\n") + "no, rather\n" + fenced(CODE)) == CODE


def test_blocks_marked_as_python_come_before_others():
    assert program(fenced(CODE) + "which prints\n" + fenced("7\n", "")) == CODE
    assert program(fenced(CODE) + fenced("gcc a.c\n", "bash")) == CODE
    assert program(fenced("int main() {}\n", "cpp")) == ""


def test_the_block_that_defines_the_function_counts():
    usage = fenced("print(f(2))\n")
    assert program(fenced(CODE) + usage, ["f"]) == CODE
    assert program(fenced(CODE) + usage, ["g"]) == "print(f(2))\n"
    assert program(fenced(CODE) + fenced("def ff(x): ...\n"), ["f"]) == CODE
    method = "class Solution:\n    def f(self): ...\n"
    assert program(fenced(method) + usage, ["Solution.f"]) == method


def test_a_block_that_was_cut_off_is_kept():
    assert program(f"```python\n{CODE}") == CODE


def test_a_longer_fence_may_hold_a_shorter_one():
    inner = 'text = """\n```\nx\n```\n"""\n'
    assert program(f"````python\n{inner}````\n") == inner


def test_a_response_that_is_python_needs_no_block():
    assert program(CODE) == CODE
    assert program("print(1)") == "print(1)\n"


@pytest.mark.parametrize("text", ["", "  ", "I do not know.", "Hello", "42", "yes", "a, b"])
def test_words_are_no_program(text):
    assert program(text) == ""


def test_thoughts_do_not_count():
    assert program(f"<think>{fenced('x = 1')}</think>no code") == ""
    assert program(f"<think>{fenced('x = 1')}</think>{fenced(CODE)}") == CODE


def test_a_fence_inside_a_line_opens_nothing():
    assert program(f"Write ```python in a line.\n{fenced(CODE)}") == CODE


@given(st.text(alphabet=st.sampled_from("`~\n pyx=1#'\"("), max_size=60))
def test_any_text_has_a_program_or_none(text):
    assert isinstance(program(text, ["x"]), str)


@given(st.lists(st.sampled_from(["x = 1", "print(x)", "# note", "", "    pass"]), min_size=1))
def test_a_block_is_kept_to_the_letter(lines):
    code = "\n".join(lines) + "\n"
    assert program(f"Well.\n{fenced(code)}") == code


def test_a_block_in_a_list_loses_the_list_s_indentation():
    indented = "".join(f"   {line}\n" for line in fenced(CODE).splitlines())
    assert program(f"1. Here:\n\n{indented}") == CODE


def test_a_fence_may_follow_text_on_its_line():
    assert program(f"Here it is: {fenced(CODE)}") == CODE


@pytest.mark.parametrize("thought", ["<think>first ", "<think>a</think> b <think>"])
def test_a_thought_that_never_ends_is_no_answer(thought):
    assert program(thought + fenced(CODE)) == ""


@pytest.mark.parametrize(
    "response",
    [
        "```" + "a" * 200_000 + "`",
        "```python\n" + "\n" * 200_000 + "```",
        "`" * 200_000,
        "``` " * 50_000,
        "\t" * 200_000 + "x",
    ],
)
def test_no_response_takes_long_to_read(response):
    start = time.process_time()
    assert "def" not in program(response, ["f"])
    assert time.process_time() - start < 5


FORMATTED = {
    "fields": "f'" + "{a}" * 21_800 + "'",
    "fields of a program": "x = rf'" + "{a}" * 21_800 + "'\nprint(x)",
    "fields without an end": 'F"' + "{a}" * 21_800,
    "strings": "print(" + "f'{a}'" * 10_000 + ")",
}


@pytest.mark.parametrize("name", FORMATTED)
def test_many_fields_of_formatted_strings_are_not_parsed(name):
    """They take quadratic time, in which no other thread runs."""
    start = time.process_time()
    assert program(FORMATTED[name]) == ""
    assert time.process_time() - start < 0.1


def test_a_program_of_few_fields_or_many_dictionaries_is_one():
    few = "print(f'{a}')\n" * 400
    many = "x = [" + "{1: 2}, " * 600 + "]\n"
    assert program(few) == few and program(many) == many
