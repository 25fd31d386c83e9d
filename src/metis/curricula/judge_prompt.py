"""The words of the self-judgment prompt (METIS, appendix B.3), kept in `judge_prompt.txt`.

With no examples the two sentences about them are left out, as in the paper's K = 0 listing. The box
of appendix A.1 is a variant of the same text.
"""

from collections.abc import Sequence
from functools import cache
from importlib import resources
from string import Template
from typing import NamedTuple

from metis.core import Message

GRID = (0.00, 0.02, 0.04, 0.06, 0.08, 0.10, 0.12, 0.15, 0.18, 0.20, 0.25)
"""The values the prompt allows. Others in range still count when a reply names them."""

CHOICES = tuple(rf"\boxed{{{value:.2f}" for value in GRID)
"""What is scored: an answer up to its last digit, after which it says nothing of the value."""


class Example(NamedTuple):
    """One pair of the calibration memory: a prompt's text and its realised variance."""

    text: str
    v: float


def single(texts: Sequence[str], examples: Sequence[Example]) -> list[list[Message]]:
    """Everything in one user message, as the paper prints it; one chat a text."""
    blocks = [_instruction("user", bool(examples))]
    for number, example in enumerate(examples, start=1):
        label = Template(_words()["label"]).substitute(variance=f"{example.v:.3f}")
        blocks.append(_problem(f"Example {number}", example.text) + "\n" + label)
    shared = "\n\n".join([*blocks, ""])
    system = _system(examples)
    return [[system, _user(shared + problem)] for problem in _problems(texts)]


def turns(texts: Sequence[str], examples: Sequence[Example]) -> list[list[Message]]:
    """Exemplars as earlier turns, answered with the allowed value nearest to what happened.

    The instruction stands once, in the system message: a turn is a problem and its variance.
    """
    shared = [_system(examples)]
    for example in examples:
        shared.append(_user(_problem("Candidate", example.text)))
        shared.append({"role": "assistant", "content": answer(example.v)})
    return [[*shared, _user(problem)] for problem in _problems(texts)]


def answer(v: float) -> str:
    """The allowed answer closest to a realised variance."""
    nearest = min(GRID, key=lambda value: abs(value - v))
    return rf"\boxed{{{nearest:.2f}}}"


@cache
def _words() -> dict[str, str]:
    text = resources.files(__package__).joinpath("judge_prompt.txt").read_text("utf-8")
    sections = (part.split("\n", 1) for part in text.split("## ")[1:])
    return {name: body.rstrip("\n") for name, body in sections}


def _instruction(role: str, with_examples: bool) -> str:
    parts = [role, *([f"{role}, with examples"] if with_examples else []), f"{role}, output"]
    return "\n".join(_words()[part] for part in parts)


def _problem(title: str, text: str) -> str:
    return Template(_words()["problem"]).substitute(title=title, text=text)


def _problems(texts: Sequence[str]) -> list[str]:
    """The candidates; there are many, so that the template is filled in once."""
    before, after = _problem("Candidate", "\0").split("\0")
    return [before + text + after for text in texts]


def _system(examples: Sequence[Example]) -> Message:
    return {"role": "system", "content": _instruction("system", bool(examples))}


def _user(content: str) -> Message:
    return {"role": "user", "content": content}
