"""`metis.compare`: what `metis compare` does."""

import logging
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from metis.comparisons.command import conduct
from metis.comparisons.plan import parse_variants
from metis.core.in_memory import is_in_memory
from metis.errors import MetisError
from metis.library.results import ComparisonResult
from metis.library.settings import (
    console,
    elsewhere,
    flattened,
    gathered,
    show_markdown,
    words,
)
from metis.loop import INTERRUPTED


def compare(
    recipe: str | Path | None = None,
    *,
    out: str | Path,
    curricula: Sequence[Any] | str = (),
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    seeds: Iterable[int] | int | str | None = None,
    baseline: str = "",
    jobs: int | None = None,
    discard: bool = False,
    suite: Sequence[str | Path] | str = (),
    samples: int = 1,
    checkpoint: str | int = "",
    model: str | Path | None = None,
    data: Any = None,
    reward: Any = None,
    show: bool = True,
    **settings: Any,
) -> ComparisonResult:
    """Train a recipe under several curricula and seeds; the same call goes on where it was stopped.

        metis.compare(engine="simulated", steps=100, curricula=["uniform", "metis"], out="cmp")

    curricula   names, or your own classes: a variant for each
    variants    others, by name: their settings, `{"bold": {"curriculum": {"explore": 0.3}}}`
    seeds       of every variant: 0, 1 and 2; or `range(5)`
    baseline    the variant to compare with
    jobs        runs at a time
    discard     delete a run's checkpoints when it is finished
    suite       benchmarks or files that finished runs are evaluated on
    samples     answers to each problem of the suite
    checkpoint  of a run that is evaluated: "best", "last" or a step
    show        print the progress and the table, as the command does

    The other arguments are those of `metis.train`. Every run is a process of its own. Without
    variants, a comparison that is there is finished and shown again.
    """
    with gathered(settings, model, data, reward, folder := Path(out)) as given:
        _require_in_files(given)
        chosen = Namespace(
            settings=[*([str(recipe)] if recipe else []), *words(given)],
            curricula=",".join(_named(curricula)),
            variant=[_variant(name, variant) for name, variant in (variants or {}).items()],
            seeds=_listed(seeds),
            baseline=baseline or None,
            jobs=jobs,
            discard=discard,
            suite=[suite] if isinstance(suite, str) and suite else list(map(str, suite)),
            samples=samples,
            checkpoint=str(checkpoint),
            out=folder,
        )
        code, written = conduct(chosen, console(show))
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code:
        logging.getLogger("metis").warning("%s: not all runs are finished", folder)
    if show:
        show_markdown(written[0])
    return ComparisonResult(folder)


def _listed(seeds: Iterable[int] | int | str | None) -> str | None:
    """Seeds as the command has them."""
    if seeds is None or isinstance(seeds, str):
        return seeds
    return str(seeds) if isinstance(seeds, int) else ",".join(map(str, seeds))


def _named(curricula: Sequence[Any] | str) -> list[str]:
    """Names or import strings."""
    if isinstance(curricula, str):
        return [curricula]
    named = []
    for each in curricula:
        settings = flattened({"curriculum": each})
        if len(settings) > 1:
            raise MetisError(
                f"curricula: {each!r} has settings of its own; name it among the variants: "
                "variants={'mine': {'curriculum': ...}}"
            )
        named.append(str(settings[0][1]))
    return named


def _variant(name: str, settings: Mapping[str, Any]) -> str:
    given = flattened(settings)
    _require_in_files(given)
    written = words(given)
    text = f"{name}:{','.join(written)}"
    if parse_variants("", [text])[0].settings != tuple(written):
        raise MetisError(f"variants: {text!r} cannot be told apart at its commas; use other texts")
    return text


def _require_in_files(settings: Iterable[tuple[str, Any]]) -> None:
    reward = dict(settings).get("task.reward")
    if is_in_memory(reward):
        raise elsewhere(reward, "a comparison")
