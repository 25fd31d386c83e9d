"""Saved state: dataclass fields that are not knobs, in one checksummed file, written atomically.

A state is made of dicts with string keys, lists, numbers, strings, numpy arrays and the value types
of `values` and `predictors`. On disk: a magic line, a SHA-256 of the rest, the length of a JSON
header, the header, and the arrays' bytes. JSON keeps floats exactly, so loading gives back what was
saved.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from metis.core import predictors, values
from metis.errors import MetisError
from metis.files import atomic

MAGIC = b"METIS state 1\n"
SEAL = len(MAGIC) + 65
"""Bytes of the magic line and the line of the digest."""
TAG = "__metis__"
SCALARS = {type(None), bool, int, float, str}
VALUES = {
    kind.__name__: kind
    for kind in (
        values.Prompt,
        values.Trajectory,
        values.Continuation,
        values.Completion,
        values.Group,
        values.Judgment,
        values.Decision,
        predictors.ValueModel,
        predictors.AttentionModel,
    )
}


class Stateful:
    """Gives a dataclass its state: `init` fields are settings, `init=False` fields are saved.

    A field that is Stateful itself, such as a curriculum's judge, saves and loads its own.
    """

    __pydantic_config__: ClassVar = {"arbitrary_types_allowed": True}
    """Settings are checked against the class, and state may be of types that settings are not."""

    def state_dict(self) -> dict[str, Any]:
        """A copy of the state, safe from what the next step does."""
        return {name: _snapshot(getattr(self, name)) for name in self._state_names()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        names = self._state_names()
        if set(state) != set(names):
            raise MetisError(
                f"state of {type(self).__name__} has the fields {sorted(state)}, expected "
                f"{sorted(names)}: the checkpoint is of another curriculum or version"
            )
        for name in names:
            part = getattr(self, name)
            if isinstance(part, Stateful):
                part.load_state_dict(state[name])
            else:
                setattr(self, name, _snapshot(state[name]))

    def _state_names(self) -> list[str]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return [f.name for f in fields if not f.init or isinstance(getattr(self, f.name), Stateful)]


def _snapshot(value: Any) -> Any:
    """A copy of everything that can change; tuples and the value types of `core` cannot."""
    if isinstance(value, Stateful):
        return value.state_dict()
    if isinstance(value, list):
        return [_snapshot(item) for item in value]
    if isinstance(value, dict):
        return {key: _snapshot(item) for key, item in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a state so that a reader finds either the old file or the whole new one."""
    arrays = _Arrays()
    header = json.dumps(_packed(state, arrays), separators=(",", ":")).encode()
    pieces: list[bytes | memoryview] = [len(header).to_bytes(8, "little"), header, *arrays.pieces]
    with atomic(path) as file:
        file.write(_seal(pieces))
        for piece in pieces:
            file.write(piece)


def require_savable(owner: Any) -> None:
    """Refuse an owner of state of which a checkpoint could not be made."""
    try:
        _packed(owner.state_dict(), _Arrays())
    except Unsavable as error:
        raise Unsavable(f"{type(owner).__name__}: {error}") from None


class Unsavable(MetisError, TypeError):
    """A part of a state is of a type that cannot be saved."""


def _packed(state: dict[str, Any], arrays: "_Arrays") -> Any:
    """The JSON form of a state; what cannot be saved is refused by the name of its field."""
    try:
        return _pack(state, arrays)
    except TypeError as error:
        field = ".".join(_path(state))
        raise Unsavable(
            f"state field {field!r}: {error}; keep dicts with string keys, lists, numbers, "
            "strings, arrays or prompts, or give it another form in state_dict and load_state_dict"
        ) from None


def _path(value: Any) -> list[str]:
    """The keys that lead to the innermost part that cannot be saved."""
    if not isinstance(value, dict):
        return []
    for key, item in value.items():
        try:
            _pack(item, _Arrays())
        except TypeError:
            return [str(key), *_path(item)]
    return []


def load(path: Path) -> dict[str, Any]:
    """Read a state, refusing a file that is not exactly what was written."""
    content = memoryview(path.read_bytes())
    seal, body = content[:SEAL], content[SEAL:]
    if seal != _seal([body]):
        raise MetisError(
            f"state file {str(path)!r} = {len(content)} bytes, truncated or damaged: delete the "
            "folder it is in to go on from the checkpoint before it, or to start over"
        )
    length = int.from_bytes(body[:8], "little")
    header = json.loads(bytes(body[8 : 8 + length]))
    state: dict[str, Any] = _unpack(header, body[8 + length :])
    return state


def _seal(pieces: Iterable[bytes | memoryview]) -> bytes:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return MAGIC + digest.hexdigest().encode() + b"\n"


class _Arrays:
    """The bytes of arrays as they will lie in the file one after the other, not copied."""

    def __init__(self) -> None:
        self.pieces: list[memoryview] = []
        self.size = 0

    def add(self, array: NDArray[Any]) -> int:
        """The offset of its bytes."""
        offset = self.size
        self.pieces.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        self.size += array.nbytes
        return offset


def _pack(value: Any, arrays: _Arrays) -> Any:
    """A JSON form of `value`; its arrays are added to `arrays`."""
    if type(value) in SCALARS:  # nearly all of a state
        return value
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject or value.dtype.names:
            raise TypeError(f"an array of {value.dtype} cannot be saved as state")
        place = {"shape": value.shape, "offset": arrays.add(value)}
        return {TAG: "array", "dtype": value.dtype.str, **place}
    if isinstance(value, np.generic):
        return _pack(value.item(), arrays)
    if type(value) in VALUES.values():
        fields = {f.name: _pack(getattr(value, f.name), arrays) for f in dataclasses.fields(value)}
        return {TAG: type(value).__name__, **fields}
    if isinstance(value, tuple):
        return {TAG: "tuple", "items": [_pack(item, arrays) for item in value]}
    if isinstance(value, list):
        return [_pack(item, arrays) for item in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) and key != TAG for key in value):
            raise TypeError(f"state keys must be strings, got {list(value)[:5]}")
        return {key: _pack(item, arrays) for key, item in value.items()}
    if isinstance(value, int | float | str):
        return value
    raise TypeError(f"a {type(value).__name__} cannot be saved as state")


def _unpack(value: Any, arrays: memoryview) -> Any:
    if isinstance(value, list):
        return [_unpack(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.pop(TAG, None)
    if kind is None:
        return {key: _unpack(item, arrays) for key, item in value.items()}
    if kind == "tuple":
        return tuple(_unpack(item, arrays) for item in value["items"])
    if kind == "array":
        dtype, shape = np.dtype(value["dtype"]), tuple(value["shape"])
        count = int(np.prod(shape))
        return np.frombuffer(arrays, dtype, count, value["offset"]).reshape(shape).copy()
    return VALUES[kind](**{key: _unpack(item, arrays) for key, item in value.items()})
