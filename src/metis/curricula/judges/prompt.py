"""The self-judgment prompt (METIS, appendix B.3), from `prompt.txt`.

The scale decides the question: the variance, in the paper's words, or passes, in ours. Without
exemplars the sentences about them are left out, as in the paper's K = 0 listing. The box of
appendix A.1 is a variant of the same text.
"""

from collections.abc import Sequence
from functools import cache
from importlib import resources
from string import Template

from metis.core import Exemplar, Message
from metis.curricula.judges.scale import VARIANCE, AnswerScale


def single(texts: Sequence[str], examples: Sequence[Exemplar]) -> list[list[Message]]:
    """One chat per text, with everything in one user message, as printed in the paper."""
    words = _words(VARIANCE.name)
    blocks = [_instruction(words, "user", bool(examples))]
    for number, example in enumerate(examples, start=1):
        label = Template(words["label"]).substitute(value=f"{example.value:.3f}")
        blocks.append(_problem(f"Example {number}", example.prompt.text) + "\n" + label)
    shared = "\n\n".join([*blocks, ""])
    system = _system(words, examples)
    return [[system, _user(shared + problem)] for problem in _problems(texts)]


def turns(
    texts: Sequence[str], examples: Sequence[Exemplar], scale: AnswerScale = VARIANCE
) -> list[list[Message]]:
    """One chat per text, with exemplars as few-shot turns and the nearest allowed answers.

    The instruction is in the system message; a turn is a problem and its outcome.
    """
    shared = [_system(_words(scale.name), examples)]
    for example in examples:
        shared.append(_user(_problem("Candidate", example.prompt.text)))
        shared.append({"role": "assistant", "content": scale.answer(example.value)})
    return [[*shared, _user(problem)] for problem in _problems(texts)]


@cache
def _words(scale: str) -> dict[str, str]:
    """The sections of `prompt.txt` for a scale; those of the variance have no prefix."""
    text = resources.files(__package__).joinpath("prompt.txt").read_text("utf-8")
    sections = dict(part.split("\n", 1) for part in text.split("## ")[1:])
    prefix = "" if scale == VARIANCE.name else f"{scale}: "
    return {
        name.removeprefix(prefix): body.rstrip("\n")
        for name, body in sections.items()
        if name.startswith(prefix)
    }


def _instruction(words: dict[str, str], role: str, with_examples: bool) -> str:
    parts = [role, *([f"{role}, with examples"] if with_examples else []), f"{role}, output"]
    return "\n".join(words[part] for part in parts)


def _problem(title: str, text: str) -> str:
    return Template(_words(VARIANCE.name)["problem"]).substitute(title=title, text=text)


def _problems(texts: Sequence[str]) -> list[str]:
    """The candidates' messages; the template is filled in only once."""
    before, after = _problem("Candidate", "\0").split("\0")
    return [before + text + after for text in texts]


def _system(words: dict[str, str], examples: Sequence[Exemplar]) -> Message:
    return {"role": "system", "content": _instruction(words, "system", bool(examples))}


def _user(content: str) -> Message:
    return {"role": "user", "content": content}
