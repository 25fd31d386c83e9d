import dataclasses
import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from metis import core, files
from metis.core import state
from metis.errors import MetisError

deterministic = settings(derandomize=True, deadline=None)


def same(one, other):
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        alike = (one.dtype, one.shape) == (other.dtype, other.shape)
        return alike and one.tobytes() == other.tobytes()
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


dtypes = st.sampled_from(["<f4", "<f8", ">f8", "<i8", "|u1", "|b1", "<c16", "<U3"])
arrays = arrays_of.arrays(dtypes, arrays_of.array_shapes(min_dims=0, min_side=0, max_side=3))
numbers = st.integers() | st.integers(2**64, 2**200) | st.floats(allow_nan=False)
scalars = st.none() | st.booleans() | numbers | st.text(max_size=5)
prompts = st.builds(core.Prompt, st.text(), st.text(), st.text(), st.none() | st.floats(0, 1))
trajectories = st.integers(0, 4).flatmap(
    lambda length: st.builds(
        core.Trajectory,
        arrays_of.arrays(np.int64, length),
        arrays_of.arrays(np.bool_, length),
        arrays_of.arrays(np.float32, length),
        st.integers(0),
    )
)
chats = st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": st.text()}))
continuations = st.builds(core.Continuation, chats, st.text(), st.floats(max_value=0))
completions = st.builds(
    core.Completion, st.text(), trajectories, st.sampled_from(["stop", "length"])
)
groups = st.lists(st.tuples(st.floats(0, 1), trajectories), max_size=3).flatmap(
    lambda rollouts: st.builds(
        core.Group,
        prompts,
        st.just(tuple(reward for reward, _ in rollouts)),
        st.just(tuple(trajectory for _, trajectory in rollouts)),
        st.integers(0, 3),
    )
)
judgments = st.builds(core.Judgment, prompts, trajectories | continuations, st.floats(-1, 1))
decisions = st.builds(core.Decision, prompts, st.booleans(), st.text(), st.none() | st.floats(0, 1))
values = prompts | trajectories | continuations | completions | groups | judgments | decisions
keys = st.text(max_size=5)
nested = st.recursive(
    scalars | arrays | values,
    lambda inner: (
        st.lists(inner, max_size=3).flatmap(lambda items: st.sampled_from([items, tuple(items)]))
        | st.dictionaries(keys, inner, max_size=3)
    ),
    max_leaves=8,
)


@deterministic
@given(content=st.dictionaries(keys, nested, max_size=4))
def test_loading_gives_back_what_was_saved(content, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "round-trip"
    state.save_state(path, content)
    assert same(state.load_state(path), content)


def test_what_was_said_is_not_saved_with_a_group(tmp_path):
    said = core.Transcript([], [{"role": "assistant", "content": "four"}], failure="ValueError")
    group = core.Group(core.Prompt("a", "2 + 2?"), (), (), 1, transcripts=(said,))
    state.save_state(tmp_path / "state", {"buffer": [group]})
    [loaded] = state.load_state(tmp_path / "state")["buffer"]
    assert loaded.failed == 1 and loaded.transcripts == ()
    assert b"four" not in (tmp_path / "state").read_bytes()


def test_loaded_arrays_can_be_written_to(tmp_path):
    path = tmp_path / "state"
    state.save_state(path, {"array": np.arange(6).reshape(2, 3).T})
    array = state.load_state(path)["array"]
    array[0, 0] = 9
    assert array.tolist() == [[9, 3], [1, 4], [2, 5]]


def test_saving_copies_no_array_and_loading_holds_the_file_and_the_arrays(tmp_path):
    content = {"arrays": [np.arange(100_000), np.ones((400, 500))]}
    size = sum(array.nbytes for array in content["arrays"])
    peaks = []
    for act in (
        lambda: state.save_state(tmp_path / "state", content),
        lambda: state.load_state(tmp_path / "state"),
    ):
        tracemalloc.start()
        act()
        peaks.append(tracemalloc.get_traced_memory()[1] / size)
        tracemalloc.stop()
    assert peaks[0] < 0.2
    assert peaks[1] < 2.2


@pytest.mark.parametrize(
    "value",
    [{1, 2}, b"bytes", object(), {1: "integer key"}, {state.TAG: "reserved"}],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_saved_is_refused_and_the_old_file_stays(value, tmp_path):
    path = tmp_path / "state"
    state.save_state(path, {"old": 1})
    with pytest.raises(TypeError, match=r"state field 'outer.list': "):
        state.save_state(path, {"fine": 1, "outer": {"list": [value]}})
    assert state.load_state(path) == {"old": 1}


@pytest.mark.parametrize("dtype", ["O", "<i8, <f8"], ids=["object", "record"])
def test_arrays_that_would_not_load_as_they_were_are_refused(dtype, tmp_path):
    with pytest.raises(TypeError):
        state.save_state(tmp_path / "state", {"array": np.zeros(2, dtype=dtype)})


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "curriculum.state"
    state.save_state(path, {"baseline": 0.5, "pairs": [(1, "a", 0.25)], "array": np.arange(5)})
    return path


def refused(path, content):
    path.write_bytes(content)
    try:
        state.load_state(path)
    except MetisError as error:
        return str(path) in str(error)
    return False


def test_a_file_truncated_anywhere_is_refused_by_name(written):
    whole = written.read_bytes()
    assert [n for n in range(len(whole)) if not refused(written, whole[:n])] == []


@pytest.mark.parametrize("flip", [0x01, 0x20])
def test_a_file_with_any_byte_flipped_is_refused_by_name(written, flip):
    whole = written.read_bytes()
    damaged = [whole[:i] + bytes([byte ^ flip]) + whole[i + 1 :] for i, byte in enumerate(whole)]
    assert [i for i, content in enumerate(damaged) if not refused(written, content)] == []


def test_a_file_with_bytes_appended_is_refused_by_name(written):
    assert refused(written, written.read_bytes() + b"\0")


def test_an_interrupted_write_leaves_the_old_file_and_no_draft(written):
    before = written.read_bytes()
    with pytest.raises(KeyboardInterrupt), files.atomic(written) as file:
        file.write(b"half of")
        raise KeyboardInterrupt
    assert written.read_bytes() == before
    assert list(written.parent.iterdir()) == [written]


def test_a_write_appears_only_when_it_is_whole(tmp_path):
    path = tmp_path / "new"
    with files.atomic(path) as file:
        file.write(b"whole")
        file.flush()
        assert not path.exists()
    assert path.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [path]


@dataclasses.dataclass
class Counting(state.Stateful):
    knob: int = 3
    count: int = dataclasses.field(init=False, default=0)
    seen: list[object] = dataclasses.field(init=False, default_factory=list)


def test_only_fields_that_are_not_knobs_are_saved_and_loaded():
    counting = Counting(knob=5)
    counting.count, counting.seen = 2, [["a"]]
    assert counting.state_dict() == {"count": 2, "seen": [["a"]]}
    other = Counting(knob=7)
    other.load_state_dict(counting.state_dict())
    assert (other.knob, other.count, other.seen) == (7, 2, [["a"]])


def test_a_state_shares_nothing_with_its_owner():
    def change(counting):
        counting.seen[0].append("b")
        counting.seen[1]["array"][0] = 9

    def original(seen):
        return seen[0] == ["a"] and seen[1]["array"].tolist() == [0, 1]

    counting = Counting()
    counting.seen = [["a"], {"array": np.arange(2)}]
    saved = counting.state_dict()
    change(counting)
    assert original(saved["seen"])
    counting.load_state_dict(saved)
    change(counting)
    assert original(saved["seen"])


@pytest.mark.parametrize("fields", [{}, {"count": 1}, {"count": 1, "seen": [], "knob": 2}])
def test_a_state_with_other_fields_is_refused_and_changes_nothing(fields):
    counting = Counting()
    with pytest.raises(MetisError, match=re.escape(f"Counting has the fields {sorted(fields)}")):
        counting.load_state_dict(fields)
    assert counting.count == 0
