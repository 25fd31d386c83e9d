"""Calls on the simulated APIs: bounded, apart from each other, and without a trace afterwards."""

import copy
import gc
import inspect
import random
import sys
import threading
import time
import tracemalloc

import pytest

import bfcl_package
from metis.prepare import bfcl_sets
from metis.tasks.bfcl import calls, limits, package
from metis.tasks.bfcl.calls import ApiCall, read

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
        f"square_root(number=0x{'f' * 9_000}, precision=2)",
        f"logarithm(value=0x{'f' * 9_000}, base=2, precision=100)",
        "logarithm(value=2, base=1e999, precision=10)",
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


@pytest.mark.parametrize("text", ["1" * 9_000 + "jx", "1e" + "9" * 4_000, "1/3"])
@pytest.mark.parametrize("parameter", ["value", "base"])
def test_text_that_would_be_read_as_a_number_is_refused(dialogues, parameter, text):
    """Reading it holds all other threads, for minutes."""
    world = with_api(dialogues, "MathAPI").world()
    other = {"value": "base", "base": "value"}[parameter]
    start = time.process_time()
    found = world.call(calls.parse(f"logarithm({parameter}={text!r}, {other}=2, precision=10)"))
    assert found == f"Error: logarithm: {parameter} is not a number"
    assert time.process_time() - start < 1.0


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


@pytest.mark.parametrize(
    "call",
    [
        "mkdir(dir_name='{}')",
        "touch(file_name='{}')",
        "mv(source='d', destination='{}')",
        "cp(source='d', destination='{}')",
    ],
)
def test_a_long_name_is_refused(dialogues, call):
    world = with_api(dialogues, "GorillaFileSystem").world()
    world.call(calls.parse("mkdir(dir_name='d')"))
    assert "at most 255 characters" in world.call(calls.parse(call.format("x" * 256)))
    assert "at most" not in world.call(calls.parse(call.format("x" * 255)))


@pytest.mark.parametrize(
    ("name", "path"),
    [("x" * 255, "."), ("x", "./" * 20_000)],
    ids=["of long names", "from a long path"],
)
def test_paths_of_many_characters_are_not_listed(dialogues, name, path):
    world = with_api(dialogues, "GorillaFileSystem").world()
    for number in range(100):
        world.call(calls.parse(f"touch(file_name='{number}')"))
        world.call(calls.parse(f"mkdir(dir_name='{name}')"))
        world.call(calls.parse(f"cd(folder='{name}')"))
    for _ in range(100):
        world.call(calls.parse("cd(folder='..')"))
    found = world.call(calls.parse(f"find(path={path!r})"))
    assert f"{limits.PATHS} characters of paths" in found


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


def test_a_default_is_never_that_of_another_rollout(dialogues):
    """`post_tweet` keeps its default list, and `mention` adds to it."""
    world = with_api(dialogues, "TwitterAPI").world()
    twitter = world.instances["TwitterAPI"]
    twitter.authenticated = True
    world.call(ApiCall("post_tweet", ("first",)))
    number = twitter.tweet_counter - 1
    world.call(calls.parse(f"mention(tweet_id={number}, mentioned_usernames=['@other'])"))
    assert twitter.tweets[number]["mentions"] == ["@other"]
    assert '"mentions": []' in world.call(ApiCall("post_tweet", ("second",)))


def test_a_distractor_is_never_that_of_another_rollout(dialogues):
    first, second = (
        with_api(dialogues, "TravelAPI", "long_context").world().instances["TravelAPI"]
        for _ in range(2)
    )
    for held in ("credit_card_list", "booking_record"):
        others = getattr(second, held)
        assert all(value is not others[key] for key, value in getattr(first, held).items())


VALUES = [
    *(
        "",
        "x",
        "..",
        "/",
        "2024-01-01",
        "1-5",
        "driver",
        "economy",
        "USD",
        "\ud800",
        "1234567812345678",
    ),
    *(-1, 0, 1, 2, 1.5, 10**18, float("inf"), True, None, b"x", 1j, ...),
    *([], {}, ["@x"], {"a": 1}, (1,), {1, 2}, [None]),
]


def shared():
    """All that outlives a rollout: globals of the simulators' modules, attributes of classes, and
    defaults; but for one dictionary that is changed before it is read."""
    found = {}
    for api in package.apis().values():
        module = sys.modules[api.simulator.__module__]
        for holder in (module, *(kind for kind in vars(module).values() if inspect.isclass(kind))):
            for name, value in vars(holder).items():
                if isinstance(value, dict | list | set) and not name.startswith("__"):
                    found[module.__name__, holder.__name__, name] = value
                elif inspect.isfunction(value):
                    found[module.__name__, holder.__name__, name] = value.__defaults__
    return {key: value for key, value in found.items() if key[2] != "LONG_WEATHER_EXTENSION"}


READY = {"authenticated": True, "access_token": "t", "token_expires_in": 9, "budget_limit": 1.0}


def likely(instance, parameter, rng):
    """A value for a parameter: one of the state, for functions that look something up, or any."""
    keys = [key for held in vars(instance).values() if isinstance(held, dict) for key in held]
    same = [getattr(instance, parameter)] if hasattr(instance, parameter) else []
    return rng.choice(rng.choice([part for part in (same, same, keys, VALUES) if part]))


@pytest.mark.parametrize("category", ["base", "long_context"])
def test_no_call_changes_what_rollouts_share(dialogues, category):
    before = copy.deepcopy(shared())
    assert len(before) > 100
    rng = random.Random(0)
    for api in package.apis().values():
        dialogue = with_api(dialogues, api.name, category)
        for _ in range(20):
            world = dialogue.world()
            instance = world.instances[api.name]
            for name in READY.keys() & vars(instance).keys():
                setattr(instance, name, READY[name])
            for name in rng.choices(list(api.functions), k=80):
                parameters = [*inspect.signature(getattr(api.simulator, name)).parameters][1:]
                given = [each for each in parameters if rng.random() < 0.8]
                values = [(each, likely(instance, each, rng)) for each in given]
                world.call(ApiCall(name, (), tuple(values)))
    assert shared() == before
    assert [value for value in VALUES if isinstance(value, list)] == [[], ["@x"], [None]]


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
