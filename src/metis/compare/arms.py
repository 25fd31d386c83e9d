"""Arms of a comparison: a curriculum or other settings under a name, run once for every seed."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from metis.errors import MetisError

BASELINE = "uniform"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NEXT_SETTING = re.compile(r",(?=[\w.]+=)")


@dataclass(frozen=True)
class Arm:
    """A name, and the key=value settings that tell it from the other arms."""

    name: str
    settings: tuple[str, ...]

    def run(self, seed: int) -> str:
        """The name of one of its runs."""
        return f"{self.name}-{seed}"


def parse_arms(curricula: str, others: Sequence[str]) -> list[Arm]:
    """The arms of `--curricula a,b,c` and of every `--arm name:key=value,...`."""
    arms = [_curriculum(name) for name in filter(None, curricula.split(","))]
    arms += [_arm(text) for text in others]
    for arm in arms:
        if [each.name for each in arms].count(arm.name) > 1:
            raise MetisError(f"arm {arm.name!r} is named twice: give one of them another name")
    return arms


def _curriculum(text: str) -> Arm:
    """A curriculum; one's own is called as its class."""
    return Arm(_checked(text.strip().rpartition(":")[2], text), (f"curriculum={text.strip()}",))


def _arm(text: str) -> Arm:
    name, colon, rest = text.partition(":")
    settings = tuple(_NEXT_SETTING.split(rest)) if colon and rest else ()
    if not settings or not all("=" in setting for setting in settings):
        raise MetisError(f"--arm {text!r}: write NAME:key=value,key=value")
    return Arm(_checked(name, text), settings)


def _checked(name: str, text: str) -> str:
    if not _NAME.fullmatch(name):
        raise MetisError(f"arm {text!r}: a name has letters, digits, '.', '_' and '-' alone")
    return name


def parse_seeds(text: str) -> list[int]:
    """The numbers of `0,1,2` or `0-4`, each once."""
    return list(dict.fromkeys(_seeds(text)))


def _seeds(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise MetisError(f"--seeds {text!r}: write numbers, such as 0,1,2 or 0-4")
        seeds = range(int(first), int(last or first) + 1)
        if not seeds:
            raise MetisError(
                f"--seeds {text!r}: {part.strip()!r} is empty; write the smaller first"
            )
        yield from seeds
