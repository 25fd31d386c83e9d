"""Saved state: dataclass fields that are not settings, in one checksummed file, written atomically.

A state consists of dicts with string keys, lists, numbers, strings, numpy arrays and the value
types of `values` and `predictors`. On disk: a magic line, a SHA-256 of the rest, the length of a
JSON header, the header, and the raw bytes of the arrays. JSON round-trips floats exactly.
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
"""Length in bytes of the magic line and the SHA-256 line."""
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
    """`state_dict` for a dataclass: `init` fields are settings, `init=False` fields are state.

    A field that is itself Stateful, such as a curriculum's judge, is saved with its own state.
    """

    __pydantic_config__: ClassVar = {"arbitrary_types_allowed": True}
    """pydantic checks the settings of the class; state fields may have any type."""

    def state_dict(self) -> dict[str, Any]:
        """A copy of the state, which later steps do not change."""
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
    """A deep copy of what is mutable; tuples and the value types of `core` are not."""
    if isinstance(value, Stateful):
        return value.state_dict()
    if isinstance(value, list):
        return list(value) if _flat(value) else [_snapshot(item) for item in value]
    if isinstance(value, dict):
        if _flat(value.values()):
            return dict(value)
        return {key: _snapshot(item) for key, item in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value


def _flat(values: Iterable[Any]) -> bool:
    """True where there is nothing to copy inside; a fast path, for long lists."""
    return SCALARS.issuperset(map(type, values))


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write a state atomically: a reader finds the old file or the complete new one."""
    with atomic(path) as file:
        for piece in _sealed(state):
            file.write(piece)


def encoded(state: dict[str, Any]) -> bytes:
    """A state as the bytes of its file."""
    return b"".join(_sealed(state))


def _sealed(state: dict[str, Any]) -> list[bytes | memoryview]:
    arrays = _Arrays()
    header = json.dumps(_packed(state, arrays), separators=(",", ":")).encode()
    pieces: list[bytes | memoryview] = [len(header).to_bytes(8, "little"), header, *arrays.pieces]
    return [_seal(pieces), *pieces]


def require_savable(owner: Any) -> None:
    """Refuse an object whose state cannot be saved."""
    try:
        _packed(owner.state_dict(), _Arrays())
    except Unsavable as error:
        raise Unsavable(f"{type(owner).__name__}: {error}") from None


class Unsavable(MetisError, TypeError):
    """Part of a state has a type that cannot be saved."""


def _packed(state: dict[str, Any], arrays: "_Arrays") -> Any:
    """The JSON form of a state; a field that cannot be saved is named in the error."""
    try:
        return _pack(state, arrays)
    except TypeError as error:
        field = ".".join(_path(state))
        raise Unsavable(
            f"state field {field!r}: {error}; keep dicts with string keys, lists, numbers, "
            "strings, arrays or prompts, or give it another form in state_dict and load_state_dict"
        ) from None


def _path(value: Any) -> list[str]:
    """The keys down to the innermost value that cannot be saved."""
    if not isinstance(value, dict):
        return []
    for key, item in value.items():
        try:
            _pack(item, _Arrays())
        except TypeError:
            return [str(key), *_path(item)]
    return []


def load_state(path: Path) -> dict[str, Any]:
    """Read a state; a file with a wrong checksum is refused."""
    return decoded(path.read_bytes(), f"state file {str(path)!r}")


def decoded(given: bytes, name: str) -> dict[str, Any]:
    """The state of such bytes; `name` is where they are from."""
    content = memoryview(given)
    seal, body = content[:SEAL], content[SEAL:]
    if seal != _seal([body]):
        raise MetisError(
            f"{name} = {len(content)} bytes, truncated or damaged: delete the "
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
    """The raw bytes of arrays, in the order of the file, without a copy."""

    def __init__(self) -> None:
        self.pieces: list[memoryview] = []
        self.size = 0

    def add(self, array: NDArray[Any]) -> int:
        """Add an array; returns the offset of its bytes."""
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
        saved = [f.name for f in dataclasses.fields(value) if f.metadata.get("saved", True)]
        fields = {name: _pack(getattr(value, name), arrays) for name in saved}
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
