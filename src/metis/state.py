"""Saved state: dataclass fields that are not knobs, in one checksummed file, written atomically.

A state is made of dicts with string keys, lists, numbers, strings, numpy arrays and the value types
of `core` and `predictors`. On disk: a magic line, a SHA-256 of the rest, the length of a JSON
header, the header, and the arrays' bytes. JSON keeps floats exactly, so loading gives back what was
saved.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from metis import core, predictors
from metis.errors import MetisError

MAGIC = b"METIS state 1\n"
TAG = "__metis__"
VALUES = {
    kind.__name__: kind
    for kind in (
        core.Prompt,
        core.Trajectory,
        core.Continuation,
        core.Completion,
        core.Group,
        core.Judgment,
        core.Decision,
        predictors.ValueModel,
        predictors.AttentionModel,
    )
}


class Stateful:
    """Gives a dataclass its state: `init` fields are knobs, `init=False` fields are saved."""

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
            setattr(self, name, _snapshot(state[name]))

    def _state_names(self) -> list[str]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return [field.name for field in fields if not field.init]


def _snapshot(value: Any) -> Any:
    """A copy of everything that can change; tuples and the value types of `core` cannot."""
    if isinstance(value, list):
        return [_snapshot(item) for item in value]
    if isinstance(value, dict):
        return {key: _snapshot(item) for key, item in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a state so that a reader finds either the old file or the whole new one."""
    arrays = bytearray()
    header = json.dumps(_pack(state, arrays), separators=(",", ":")).encode()
    body = len(header).to_bytes(8, "little") + header + bytes(arrays)
    with atomic(path) as file:
        file.write(_sealed(body))


def load(path: Path) -> dict[str, Any]:
    """Read a state, refusing a file that is not exactly what was written."""
    content = path.read_bytes()
    body = content[len(MAGIC) + 65 :]
    if content != _sealed(body):
        raise MetisError(
            f"state file {str(path)!r} = {len(content)} bytes, truncated or damaged: delete the "
            "folder it is in to go on from the checkpoint before it, or to start over"
        )
    length = int.from_bytes(body[:8], "little")
    state: dict[str, Any] = _unpack(json.loads(body[8 : 8 + length]), body[8 + length :])
    return state


def _sealed(body: bytes) -> bytes:
    return MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when it is whole and on disk."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        with draft.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _pack(value: Any, arrays: bytearray) -> Any:
    """A JSON form of `value`; the bytes of its arrays are appended to `arrays`."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject or value.dtype.names:
            raise TypeError(f"an array of {value.dtype} cannot be saved as state")
        offset = len(arrays)
        arrays += np.ascontiguousarray(value).tobytes()
        return {TAG: "array", "dtype": value.dtype.str, "shape": value.shape, "offset": offset}
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
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a {type(value).__name__} cannot be saved as state")


def _unpack(value: Any, arrays: bytes) -> Any:
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
