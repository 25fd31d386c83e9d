"""Plain data and frames: what is sent arrives, and nothing else does."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metis.tasks.code.inside.frames import COST, Inbox, frame
from metis.tasks.code.inside.plain import NotPlain, pack, unpack

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.binary()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
)
VALUES = st.recursive(
    SCALARS,
    lambda items: (
        st.lists(items, max_size=4)
        | st.tuples(items, items)
        | st.sets(SCALARS, max_size=4)
        | st.frozensets(SCALARS, max_size=4)
        | st.dictionaries(SCALARS, items, max_size=4)
    ),
    max_leaves=16,
)


@given(VALUES)
def test_what_is_packed_is_unpacked_with_its_types(value):
    again = unpack(json.loads(json.dumps(pack(value))))
    assert again == value and type(again) is type(value)


def test_extreme_numbers_keep_their_value():
    for value in (10**5000, -(1 << 53), float("inf"), range(1, 9, 2), 1e-320):
        assert unpack(json.loads(json.dumps(pack(value)))) == value


@pytest.mark.parametrize("value", [object(), len, iter([]), {1: [lambda: 0]}, NotPlain])
def test_other_values_are_refused(value):
    with pytest.raises(NotPlain):
        pack(value)


def test_scalars_of_numpy_are_numbers():
    numpy = pytest.importorskip("numpy")
    assert pack([numpy.int64(3), numpy.bool_(True)]) == pack([3, True])


@given(
    st.lists(st.tuples(st.sampled_from([b"M", b"E"]), st.binary(max_size=50))),
    st.integers(1, 20),
)
def test_frames_arrive_whole_in_whatever_pieces_they_come(sent, size):
    stream = b"".join(frame(letter, content) for letter, content in sent)
    inbox = Inbox(len(stream) + COST * len(sent))
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert [found for piece in pieces for found in inbox.add(piece)] == sent


@pytest.mark.parametrize(
    "stream", [frame(b"M", b"x" * 200), b"\xff" * 5, frame(b"M", b"x") * 50, frame(b"M", b"") * 3]
)
def test_frames_beyond_their_room_are_refused(stream):
    inbox = Inbox(100)
    with pytest.raises(ValueError):
        inbox.add(stream)
