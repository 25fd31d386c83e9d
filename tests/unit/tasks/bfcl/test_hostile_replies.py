"""Hostile replies: whatever a policy writes costs little time and memory, and is scored."""

import gc
import inspect
import time
from pathlib import Path

import pytest

import bfcl_package
from hostile import replies
from metis.prepare import bfcl_sets
from metis.tasks.bfcl import calls, limits, package
from metis.tasks.bfcl.episode import Episode

bfcl_package.require()

SECONDS = 0.2
"""Of this process, for one reply."""
ROWS = [(api, name) for api, rows in replies.EPISODES.items() for name in rows]


@pytest.fixture(scope="module")
def dialogues():
    return bfcl_sets.every("rebuilt")


@pytest.fixture(autouse=True)
def only_their_own_garbage():
    """A collection looks through what a reply left, not through all that the tests before did."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(params=["base", "long_context"])
def category(request):
    return request.param


def episode_with(dialogues, api, category):
    """An episode whose API is logged in, with room for any number of replies."""
    dialogue = next(each for each in dialogues[category] if api in each.names)
    episode = Episode(dialogue, steps=10**6)
    episode.world.instances[api].authenticated = True
    return episode


def seconds(act):
    """What it takes at best: another process may have emptied the caches."""
    taken = []
    while len(taken) < 3 and min(taken, default=1.0) > SECONDS / 2:
        start = time.process_time()
        act()
        taken.append(time.process_time() - start)
    return min(taken)


@pytest.mark.parametrize("size", [calls.LONGEST, 65_536])
def test_no_reply_takes_long_to_read(dialogues, size):
    dialogue = dialogues["base"][0]
    taken = {
        name: seconds(lambda text=text: Episode(dialogue).reply(text))
        for name, text in replies.shapes(size)
    }
    assert len(taken) > 200
    print({name: round(each, 3) for name, each in taken.items() if each > SECONDS / 4})
    assert {name: each for name, each in taken.items() if each > SECONDS} == {}


@pytest.mark.parametrize(("api", "name"), ROWS)
def test_no_reply_takes_long_to_call(dialogues, category, api, name):
    """Whatever was done in the replies before it."""
    slow = {}
    for attempt in range(3):
        episode = episode_with(dialogues, api, category)
        taken = []
        for text in replies.EPISODES[api][name]:
            start = time.process_time()
            assert episode.reply(text) is not None
            taken.append(time.process_time() - start)
        start = time.process_time()
        episode.reward()
        slow[attempt] = max(*taken, time.process_time() - start)
        if slow[attempt] <= SECONDS:
            break
    assert min(slow.values()) <= SECONDS


@pytest.mark.parametrize(("api", "name"), ROWS)
def test_results_are_bounded(dialogues, category, api, name):
    """Of one call by what is left behind, of all calls of a reply by more than one of them."""
    episode = episode_with(dialogues, api, category)
    for text in replies.EPISODES[api][name]:
        sizes = list(map(len, episode.make(calls.read(text))))
        assert max(sizes) <= 4 * limits.RESULTS
        assert sum(sizes) <= 5 * limits.RESULTS


TUPLE = "('x',)"
NOT_TEXT = [
    f"mkdir(dir_name={TUPLE})",
    f"touch(file_name={TUPLE})",
    f"cp(source='d', destination={TUPLE})",
    f"mv(source='d', destination={TUPLE})",
    "echo(content=5, file_name='d')",
    f"echo(content={TUPLE}, file_name='d')",
]


@pytest.mark.parametrize("call", NOT_TEXT)
def test_what_is_kept_as_text_is_text(dialogues, call):
    world = episode_with(dialogues, "GorillaFileSystem", "base").world
    [_, found] = world.make(calls.read(f"[mkdir(dir_name='d'), {call}]"))
    assert found.endswith("is not text")
    assert "('x',)" not in world.instances["GorillaFileSystem"].root.contents


def test_a_file_of_no_text_does_not_fail_the_searches_after_it(dialogues):
    """Whatever way it came to be: a check before a call fails like the call, not like the task."""
    episode = episode_with(dialogues, "GorillaFileSystem", "base")
    episode.make(calls.read("[touch(file_name='a'), echo(content=5, file_name='a')]"))
    files = episode.world.instances["GorillaFileSystem"].root.contents
    assert files["a"].content == ""
    files["a"].content = 5
    found = episode.make(calls.read("[find(), du(), cp(source='a', destination='b')]"))
    assert [each.startswith("Error") for each in found] == [True, True, True]
    assert 0.0 <= episode.reward()["score"] <= 1.0


LARGE = f"0x{'f' * 4000}"


@pytest.mark.parametrize(
    "door", [f"[{LARGE}]", f"[({LARGE},)]", f"{{{LARGE}: 1}}", f"[-{LARGE}]", f"[{LARGE} + 1j]"]
)
def test_a_number_that_cannot_be_written_is_refused(dialogues, door):
    episode = episode_with(dialogues, "VehicleControlAPI", "base")
    [message] = episode.reply(f"[lockDoors(unlock=True, door={door})]")
    assert "lockDoors: " in message["content"]


def test_a_call_whose_error_cannot_be_written_says_its_kind(dialogues):
    world = episode_with(dialogues, "VehicleControlAPI", "base").world
    call = calls.ApiCall("lockDoors", (), (("unlock", True), ("door", [int(LARGE, 16)])))
    assert world.call(call).startswith("Error during execution: ")


ODD = (
    *("5", "-1.5", "1e999", "None", "True", "1j", "...", "b'x'", "''", "'x'", "'a/b'", "[]", "{}"),
    *("[5]", "('x',)", "{'x': {}}", "[[[]]]", "'\\0'", "'\\ud800'", "['\\ud800']"),
    *(f"0x{'f' * 900}", f"[0x{'f' * 900}]", LARGE, f"[{LARGE}]", f"{{{LARGE}: {LARGE}}}"),
)
"""Arguments that few functions are made for."""
OTHERS = ("'x'", "1", "['x']")
"""Arguments beside them."""


@pytest.mark.parametrize("api", sorted(package.FILES))
def test_no_argument_of_any_function_fails_the_rollout(dialogues, api):
    """Each function with each odd value in each parameter, one after the other on one state."""
    episode = episode_with(dialogues, api, "base")
    for name in package.apis()[api].functions:
        parameters = list(inspect.signature(episode.world.functions[name]).parameters)
        for odd in parameters:
            for value in ODD:
                for other in OTHERS:
                    given = (f"{each}={value if each == odd else other}" for each in parameters)
                    [message] = episode.reply(f"[{name}({', '.join(given)})]")
                    assert message["content"]
    assert episode.reward()["score"] <= 1.0


def test_states_that_cannot_be_compared_differ(dialogues):
    episode = episode_with(dialogues, "GorillaFileSystem", "base")
    for world in (episode.world, episode.right):
        root = world.instances["GorillaFileSystem"].root
        root.contents["d"] = type(root)("d", root)
        root.contents["d"].contents["d"] = root.contents["d"]
    assert not episode.world.equals(episode.right)


def test_a_file_system_takes_no_copy_when_it_is_full(dialogues):
    world = episode_with(dialogues, "GorillaFileSystem", "base").world
    for text in replies.FILES["copies of a full directory"]:
        world.make(calls.read(text))
    contents = world.instances["GorillaFileSystem"].root.contents
    copies = [name for name, each in contents.items() if len(getattr(each, "contents", ())) > 700]
    assert len(copies) <= 2 + limits.ENTRIES // 700


@pytest.mark.parametrize(
    "text",
    [
        f"[ls(a=0x{'f' * 400} + 1j)]",
        f"[echo(content=-0x{'f' * 400} - 1e308j)]",
        "[ls(a={[]: 1})]",
        "[ls(a={{}})]",
        "[ls(a=b'\\xff' '\u00e9')]",
    ],
)
def test_a_literal_without_a_value_is_refused_and_the_episode_goes_on(dialogues, text):
    """An exception would have the rollout fail rather than be scored."""
    episode = episode_with(dialogues, "GorillaFileSystem", "base")
    [message] = episode.reply(text)
    assert "Error" in message["content"] or "not a" in message["content"]
    assert episode.reward()["score"] == 0.0


def resident():
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def hostile_replies(dialogues, *categories):
    count = 0
    for category in categories:
        for api, rows in replies.EPISODES.items():
            for texts in rows.values():
                episode = episode_with(dialogues, api, category)
                for text in texts:
                    episode.reply(text)
                    count += 1
                episode.reward()
    return count


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_memory_is_given_back(dialogues):
    hostile_replies(dialogues, "base")
    before = resident()
    assert hostile_replies(dialogues, "base", "long_context") >= 1000
    assert resident() - before < 50
