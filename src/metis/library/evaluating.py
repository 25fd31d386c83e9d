"""`metis.evaluate`: what `metis eval` does."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metis.errors import MetisError
from metis.evals.command import conduct
from metis.library.results import EvaluationResult
from metis.library.run import TrainedRun
from metis.library.settings import console, gathered, show_markdown, words
from metis.settings.keys import suggestion

OPTIONS: dict[str, Any] = {
    "top_p": 1.0,
    **dict.fromkeys(("verify", "device", "generation", "vllm_cache", "rows", "tokens")),
}
"""Further options of the command, with their defaults."""


def evaluate(
    subject: str | Path | TrainedRun,
    *,
    suite: Sequence[str | Path] | str = (),
    task: str | Mapping[str, Any] | None = None,
    reward: Any = None,
    samples: int = 1,
    temperature: float | None = None,
    max_tokens: int | None = None,
    limit: int | None = None,
    seed: int = 0,
    checkpoint: str | int = "",
    data: str | Path | None = None,
    out: str | Path | None = None,
    show: bool = True,
    **options: Any,
) -> EvaluationResult:
    """Evaluate a model, or a checkpoint of a run, on benchmarks; the same call goes on, if stopped.

        metis.evaluate("runs/sums", samples=4)
        metis.evaluate("Qwen/Qwen3-4B-Base", suite="math")

    subject     a run, as an object or by its folder; or a model, by its folder or its name
    suite       benchmarks, suites or files; without one a run is tested on its held-out prompts
    task        settings of the task that differ from the run's
    reward      a function that scores an answer, where the run's was given from Python too
    samples     answers to each problem
    checkpoint  of a run: "best", "last" or a step
    data        the folder of the benchmarks
    out         the folder; without one, under `evals/`
    show        print the progress and the table, as the command does
    options     the other options of `metis eval --help`: device, top_p, verify and others
    """
    for name in options.keys() - OPTIONS.keys():
        raise MetisError(f"unknown option {name!r}: {suggestion(name, list(OPTIONS))}")
    who = subject.path if isinstance(subject, TrainedRun) else subject
    given = {} if task is None else {"task": task}
    with gathered(given, None, None, reward, Path()) as settings:
        chosen = Namespace(
            subject=str(who),
            settings=words(settings),
            suite=[suite] if isinstance(suite, str) and suite else list(map(str, suite)),
            samples=samples,
            temperature=temperature,
            max_tokens=max_tokens,
            limit=limit,
            seed=seed,
            checkpoint=str(checkpoint),
            data=None if data is None else Path(data),
            out=Path(out) if out else None,
            **{**OPTIONS, **options},
        )
        folder, results = conduct(chosen, console(show))
    if show:
        from metis.evals.results import markdown

        show_markdown(markdown(results))
    return EvaluationResult(folder, results)
