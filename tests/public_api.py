"""The public API as text: `python tests/public_api.py > tests/public_api.txt` after a change of it.

What is listed is under the rule of CONTRIBUTING for deprecations.
"""

import abc
import argparse
import inspect
from collections.abc import Iterator
from typing import Any, Protocol

import metis
from metis import cli, core
from metis.curricula import judge, judges
from metis.tasks import sandbox

CLASSES = (type, abc.ABCMeta, type(Protocol))
NAMES = {
    metis: metis.__all__,
    core: core.__all__,
    judges: ("Judge", "Lesson", "Prediction", "Predictions"),
    judge: judge.__all__,
    sandbox: sandbox.__all__,
}


def lines() -> Iterator[str]:
    """Every public name with its arguments, then every command with its options.

    Settings are in docs/settings.md, metrics in docs/metrics.md.
    """
    for module, names in NAMES.items():
        for name in sorted(names):
            yield from _described(f"{module.__name__}.{name}", getattr(module, name))
    yield from _commands(cli._parser())


def _described(name: str, value: Any) -> Iterator[str]:
    yield f"{name}{_signature(value)}"
    if type(value) in CLASSES:
        yield from (f"{name}.{member}" for member in sorted(_members(value)))


def _members(value: Any) -> Iterator[str]:
    """Attributes and methods of a class, with what they take."""
    own = [base for base in value.__mro__ if base.__module__.startswith("metis")]
    if issubclass(value, Exception):
        return
    names = {name for base in own for name in (*vars(base), *inspect.get_annotations(base))}
    for name in names:
        member = inspect.getattr_static(value, name, None)
        if name.startswith("_"):
            continue
        if isinstance(member, staticmethod | classmethod):
            member = member.__func__
        yield f"{name}{_signature(member)}" if inspect.isfunction(member) else name


def _signature(value: Any) -> str:
    """The arguments without their types, whose text differs between versions of Python.

    Aliases of types and exceptions have none.
    """
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    return str(inspect.Signature(plain))


def _commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    for name, command in sorted(cli.subcommands(parser).items()):
        options = ("|".join(action.option_strings) or action.dest for action in command._actions)
        yield f"metis {name} {' '.join(sorted(options))}"


if __name__ == "__main__":
    print(*lines(), sep="\n")
