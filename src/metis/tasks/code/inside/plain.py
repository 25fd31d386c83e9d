"""Plain data encoded as JSON: the only values exchanged with a program's process.

A value of a type that JSON lacks is an object with the type as its only key. Unpacking creates
plain data only.
"""

from typing import Any

SIMPLE = 1 << 53
"""Integers from here on are written in hexadecimal, which Python parses at any length."""
ITEMS = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}


class NotPlain(Exception):
    """A value that is not plain data."""


def pack(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        number = int.__int__(value)
        return number if -SIMPLE < number < SIMPLE else {"int": hex(number)}
    if isinstance(value, float):
        return {"float": float.hex(value)}
    if isinstance(value, complex):
        return {"complex": [float.hex(value.real), float.hex(value.imag)]}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": value.hex()}
    if isinstance(value, range):
        return {"range": [pack(part) for part in (value.start, value.stop, value.step)]}
    if isinstance(value, dict):
        return {"dict": [[pack(key), pack(item)] for key, item in value.items()]}
    for kind, name in ITEMS.items():
        if isinstance(value, kind):
            return {name: [pack(item) for item in value]}
    return pack(_number(value))


def _number(value: Any) -> Any:
    """The Python number of a scalar of numpy or another library."""
    item = getattr(value, "item", None)
    number = item() if callable(item) else None
    if type(number) in (bool, int, float, complex, str, bytes):
        return number
    raise NotPlain(f"{type(value).__name__} is no plain data")


def unpack(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((name, content),) = value.items()
    return _READERS[name](content)


_READERS: dict[str, Any] = {
    "int": lambda text: int(text, 16),
    "float": float.fromhex,
    "complex": lambda parts: complex(*map(float.fromhex, parts)),
    "bytes": bytes.fromhex,
    "range": lambda parts: range(*map(unpack, parts)),
    "dict": lambda pairs: {unpack(key): unpack(item) for key, item in pairs},
    "list": lambda items: [unpack(item) for item in items],
    "tuple": lambda items: tuple(map(unpack, items)),
    "set": lambda items: set(map(unpack, items)),
    "frozenset": lambda items: frozenset(map(unpack, items)),
}
