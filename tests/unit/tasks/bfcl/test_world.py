"""Calls on the simulated APIs: bounded, apart from each other, and without a trace afterwards."""

import gc
import threading
import time
import tracemalloc

import pytest

import bfcl_package
from metis.prepare import bfcl_sets
from metis.tasks.bfcl import calls, limits, package
from metis.tasks.bfcl.calls import read

bfcl_package.require()


@pytest.fixture(scope="module")
def dialogues():
    return bfcl_sets.every("rebuilt")


def with_api(dialogues, name, category="base"):
    return next(each for each in dialogues[category] if name in each.names)


def test_every_function_is_one_of_its_api():
    for api in package.apis().values():
        for name in api.functions:
            assert callable(getattr(api.simulator, name)) and not name.startswith("_")


@pytest.mark.parametrize(
    "call",
    ["_load_scenario(scenario={})", "__init__()", "get_everything()", "eval('1')", "print(1)"],
)
def test_there_is_no_function_but_those_of_the_documentation(dialogues, call):
    world = with_api(dialogues, "TwitterAPI").world()
    [parsed] = read(call)
    assert world.call(parsed).startswith("Error: there is no function")


@pytest.mark.parametrize(
    "call",
    [
        "power(base=9, exponent=999999999)",
        "power(9, 999999999)",
        "logarithm(value=2, base=10, precision=100000000)",
        "logarithm(value=2, base=10, precision=1e400)",
        "square_root(number=2, precision=100000000)",
        "round_number(number=5, decimal_places=-1000000000)",
    ],
)
def test_numbers_that_take_forever_are_refused(dialogues, call):
    world = with_api(dialogues, "MathAPI").world()
    start = time.process_time()
    assert "may be at most" in world.call(calls.parse(call))
    assert time.process_time() - start < 1.0


@pytest.mark.parametrize("precision", ["'100000000'", "b'100000000'", "[9]", "1j"])
def test_numbers_in_disguise_are_refused(dialogues, precision):
    """The simulator takes the text of a number for one."""
    world = with_api(dialogues, "MathAPI").world()
    call = f"logarithm(value=2, base=10, precision={precision})"
    assert world.call(calls.parse(call)) == "Error: logarithm: precision is not a number"


def test_an_argument_that_may_be_none_is_not_refused(dialogues):
    world = with_api(dialogues, "MathAPI").world()
    assert world.call(calls.parse("round_number(number=5, decimal_places=None)")) == '{"result": 5}'


def test_wrong_arguments_are_an_error_that_can_be_read(dialogues):
    world = with_api(dialogues, "MathAPI").world()
    assert "unexpected keyword" in world.call(calls.parse("add(a=1, c=2)"))
    assert "missing" in world.call(calls.parse("add(a=1)"))
    assert "multiple values" in world.call(calls.parse("add(self=1, a=1, b=2)"))


CUT_OFF = (
    *("mkdir(dir_name='a')", "cd(folder='a')", "mkdir(dir_name='b')", "cd(folder='..')"),
    *("cp(source='a', destination='c')", "rm(file_name='a')"),
    *("cd(folder='c')", "cd(folder='b')", "cd(folder='..')"),
)
"""To a directory out of the tree: the parent of a copied directory is that of the original."""


@pytest.mark.parametrize("way", [(), CUT_OFF], ids=["in the tree", "cut off from it"])
@pytest.mark.parametrize("walk", ["find(path='.', name='x')", "du()"])
def test_a_file_system_that_doubles_is_stopped(dialogues, way, walk):
    world = with_api(dialogues, "GorillaFileSystem").world()
    for step in (*way, "mkdir(dir_name='d0')"):
        world.call(calls.parse(step))
    for number in range(20):
        old, copied, new = f"d{number}", f"c{number}", f"d{number + 1}"
        steps = [
            f"cp(source='{old}', destination='{copied}')",
            f"mkdir(dir_name='{new}')",
            f"mv(source='{old}', destination='{new}')",
            f"mv(source='{copied}', destination='{new}')",
        ]
        for step in steps:
            world.call(calls.parse(step))
    start = time.process_time()
    assert f"more than {limits.ENTRIES}" in world.call(calls.parse(walk))
    assert time.process_time() - start < 1.0


def test_a_directory_in_itself_is_stopped(dialogues):
    world = with_api(dialogues, "GorillaFileSystem").world()
    for step in ("mkdir(dir_name='d')", "cp(source='d', destination='d')"):
        world.call(calls.parse(step))
    assert f"more than {limits.ENTRIES}" in world.call(calls.parse("find(path='.', name='x')"))
    assert not world.equals(with_api(dialogues, "GorillaFileSystem").world())


@pytest.mark.parametrize("category", ["base", "long_context"])
def test_eight_rollouts_of_a_task_share_nothing(dialogues, category):
    """Played at the same time in eight threads, each turn in step with the others."""
    for dialogue in dialogues[category][::25]:
        world = dialogue.world()
        alone = [world.call(call) for turn in dialogue.solution for call in turn]
        barrier, played = threading.Barrier(8), {}

        def run(number, dialogue=dialogue, barrier=barrier, played=played):
            world, results = dialogue.world(), []
            for turn in dialogue.solution:
                barrier.wait()
                results += [world.call(call) for call in turn if number % 2 == 0]
            played[number] = (world, results)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number, (world, results) in played.items():
            assert results == ([] if number % 2 else alone)
            assert number % 2 == 0 or world.equals(dialogue.world())


def test_arguments_are_never_those_of_another_rollout(dialogues):
    """Some simulators keep the lists that they are given, and add to them."""
    dialogue = next(
        each
        for each in dialogues["base"]
        if any("mentions=[" in call for turn in each.truth for call in turn)
    )
    first, second = (
        bfcl_package.play(dialogue, bfcl_package.solved(dialogue)).reward() for _ in range(2)
    )
    assert first == second and first["official"] == 1.0


def test_steps_leave_nothing_behind(dialogues):
    """The slope of the memory that is held, over episodes that come and go."""
    chosen = dialogues["long_context"][:20]

    def steps(count):
        made = 0
        while made < count:
            for dialogue in chosen:
                world = dialogue.world()
                for call in (call for turn in dialogue.solution for call in turn):
                    world.call(call)
                    made += 1
        gc.collect()
        return made

    steps(500)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    made = steps(2000)
    slope = (tracemalloc.get_traced_memory()[0] - before) / made
    tracemalloc.stop()
    print(f"{slope:.2f} bytes a step")
    assert slope < 16
