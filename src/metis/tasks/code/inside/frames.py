"""The framing of messages on a pipe: length, a letter for the type, content.

| letter | from | content |
|---|---|---|
| `P` | outside | the program and its limits |
| `R` | driver | first: it is running; then: the program's compilation error, or null |
| `T` | outside | a test |
| `M` | outside, or the test's process | a message to the other, passed on by the driver |
| `S` | outside | stop the test |
| `E` | driver | the end of the test |
"""

from os import read as _some  # whatever becomes of these in `os`
from os import write as _begin

HEAD = 5
COST = 64
"""Bytes that a frame counts as, besides its own: each is passed on separately."""


def frame(letter: bytes, content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + letter + content


def write(descriptor: int, letter: bytes, content: bytes) -> None:
    left = memoryview(frame(letter, content))
    while left:
        left = left[_begin(descriptor, left) :]


def read(descriptor: int) -> tuple[bytes, bytes]:
    """The next frame; raises EOFError if the other side has closed the pipe."""
    head = _exactly(descriptor, HEAD)
    return head[4:], _exactly(descriptor, int.from_bytes(head[:4], "big"))


def _exactly(descriptor: int, count: int) -> bytes:
    content = bytearray()
    while len(content) < count:
        chunk = _some(descriptor, count - len(content))
        if not chunk:
            raise EOFError
        content += chunk
    return bytes(content)


class Inbox:
    """Assembles frames from chunks, at most `room` bytes in total."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._held = bytearray()

    def add(self, chunk: bytes) -> list[tuple[bytes, bytes]]:
        """The frames that are complete now; raises ValueError above `room`."""
        self._held += chunk
        self.room -= len(chunk)
        frames = []
        while len(self._held) >= HEAD:
            length = int.from_bytes(self._held[:4], "big")
            if self.room < 0 or length > self.room + len(self._held):
                raise ValueError
            if len(self._held) < HEAD + length:
                break
            letter = bytes(self._held[4:HEAD])
            frames.append((letter, bytes(self._held[HEAD : HEAD + length])))
            del self._held[: HEAD + length]
            self.room -= COST
        return frames
