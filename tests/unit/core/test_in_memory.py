"""Functions of this process alone, by names that another process computes too."""

import os
import subprocess
import sys
from functools import partial

import pytest

from metis.core import in_memory
from metis.core.importing import import_object
from metis.errors import MetisError


def score(reply, reference):
    return float(reply == reference)


def scorer(weight, names=frozenset({"a", "b", "c"})):
    def weighted(reply):
        return weight * (reply in names)

    return weighted


class Judge:
    def __init__(self, limit):
        self.limit = limit

    def __call__(self, reply):
        return float(len(reply) < self.limit)


def test_a_function_of_a_module_is_found_again_and_a_closure_is_not():
    assert in_memory.importable(score) and in_memory.importable(Judge)
    for given in (scorer(1.0), lambda reply: 1.0, partial(score, "a"), Judge(3)):
        assert not in_memory.importable(given)


def test_a_remembered_function_is_imported_by_its_name():
    function = scorer(0.5)
    name = in_memory.remember(function)
    assert in_memory.is_in_memory(name) and name.startswith("<memory>:weighted-")
    assert import_object("task.reward", name) is function
    with pytest.raises(MetisError, match=r"reward=gone; .*task.reward=path/to/file.py:gone"):
        import_object("task.reward", "<memory>:gone-00000000")


def test_another_function_has_another_name():
    given = [
        *(scorer(0.5), scorer(0.6), scorer(0.5, frozenset({"a"}))),
        *(lambda reply: 0.0, lambda reply: 1.0, lambda reply, row: 1.0),
        *(partial(score, reference="a"), partial(score, reference="b"), Judge(3), Judge(4)),
    ]
    assert len({in_memory.remember(each) for each in given}) == len(given)
    assert in_memory.remember(scorer(0.5)) == in_memory.remember(scorer(0.5))
    assert in_memory.remember(Judge(3)) == in_memory.remember(Judge(3))


CELL = """
def helper(reply):
    return LIMIT < len(reply) {extra}

def reward(reply):
    return float(helper(reply))
"""


def cell(limit, extra=""):
    """A reward as a notebook has it: what it needs was defined in other cells."""
    names = {"LIMIT": limit, "__name__": "__main__"}
    exec(CELL.format(extra=extra), names)
    return in_memory.remember(names["reward"])


def test_a_name_depends_on_the_globals_that_a_function_uses():
    assert cell(3) == cell(3)
    assert len({cell(3), cell(4), cell(3, "and True")}) == 3


def test_a_function_that_holds_itself_has_a_name():
    def count(reply):
        return 0 if not reply else count(reply[1:])

    assert in_memory.remember(count).startswith("<memory>:count-")


PROGRAM = """
from metis.core import in_memory
def score(reply, names=frozenset({"one", "two", "three"})):
    return max([len(reply) for name in names if name in reply])
print(in_memory.importable(score), in_memory.remember(score))
"""


def test_the_name_is_the_same_in_another_process_that_has_the_function():
    said = {
        subprocess.check_output(
            [sys.executable, "-"],
            input="\n" * lines + PROGRAM,
            text=True,
            env={"PYTHONHASHSEED": str(lines), "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for lines in (1, 2)
    }
    assert len(said) == 1 and said.pop().startswith("False <memory>:score-")


def test_a_function_of_a_script_is_imported_from_its_file(tmp_path):
    (tmp_path / "script.py").write_text(PROGRAM)
    run = [sys.executable, "script.py"]
    said = subprocess.check_output(run, text=True, cwd=tmp_path)
    assert said.startswith("True ")
