"""`metis eval`: its options, and how they become an evaluation."""

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metis.commands import Commands, add_command, digest, plain_console
from metis.core import Sampling
from metis.errors import MetisError, pip_install, require, require_folder
from metis.evals import subject
from metis.evals.plan import BatchLimits
from metis.evals.subject import EvaluatedModel
from metis.evals.suite import AnswerFolder, Evaluation, answer_all, finished
from metis.run.waiting import Say
from metis.tasks.base import scorers
from metis.tasks.benchmarks import catalogue
from metis.tasks.benchmarks.catalogue import OWN, READERS, Manner
from metis.tasks.benchmarks.sets import PromptSet

if TYPE_CHECKING:
    from rich.console import Console

HELP = """\
Evaluates a model, or a checkpoint of a training run: the best, or else the last. Without --suite a
run is tested on its own held-out prompts, by its own task, as in training. Benchmarks are read
from files that `metis prepare` wrote; a file with a problem and an answer in every row is one too,
asked and scored as the run's task says, or for a model as mathematics. key=value sets the task
otherwise.

  metis eval runs/mine --checkpoint last
  metis eval runs/mine --suite heldout more.jsonl aime24 --samples 32
  metis eval Qwen/Qwen3-4B-Base --suite math
  metis eval Qwen/Qwen3-8B-Base --suite code
  metis eval Qwen/Qwen3-4B-Instruct-2507 --suite bfcl --samples 8
  metis eval smollm2-135m task=file task.match=number --suite problems.jsonl --limit 20

An evaluation that was stopped goes on where it was when the same command is given again.
"""


def add(commands: Commands) -> None:
    """Add the command to the parser's."""
    summary = "pass@1 (or mean@k) of a model or a run on benchmarks"
    parser = add_command(commands, "eval", run, summary, HELP)
    parser.add_argument("subject", metavar="MODEL_OR_RUN")
    parser.add_argument("settings", nargs="*", metavar="key=value", help="of the task")
    names = ", ".join([OWN, *catalogue.known_names()])
    suites = f"{names}, or a file (default: {OWN}, a run's own)"
    option = parser.add_argument
    option("--suite", nargs="+", default=[], metavar="NAME", help=suites)
    option("--samples", type=int, default=1, metavar="K", help="answers to each problem (1)")
    option("--temperature", type=float, metavar="T", help="default: 0, greedy; of several, 1")
    option("--top-p", type=float, default=1.0, metavar="P", help="nucleus (1)")
    option("--max-tokens", type=int, metavar="N", help="default: the run's; 8192, on a CPU 128")
    option("--limit", type=int, metavar="N", help="only N problems of each benchmark")
    option("--seed", type=int, default=0, metavar="S", help="of samples and of --limit (0)")
    kept = "of a run: best, last or a step (default: best, or else last)"
    option("--checkpoint", default="", metavar="NAME", help=kept)
    verify = "ask math-verify too (default: as the run did; of a model, no)"
    option("--verify", action=argparse.BooleanOptionalAction, default=None, help=verify)
    option("--data", type=Path, metavar="DIR", help="of benchmarks (METIS_DATA, or data/TASK)")
    option("--device", metavar="NAME", help="cpu, cuda, mps or auto")
    option("--generation", choices=("transformers", "vllm"), help="default: the run's")
    cache = "of vLLM's KV cache, for others on the GPU (default: the run's, or what vLLM measures)"
    option("--vllm-cache", type=float, metavar="GIB", help=cache)
    option("--rows", type=int, metavar="N", help="answers asked for at once, and then saved")
    option("--tokens", type=int, metavar="N", help="tokens held at once, at full length")
    option("--out", type=Path, metavar="DIR", help="default: under evals/")


def run(chosen: argparse.Namespace) -> int:
    """Evaluate, or show what an earlier call with the same settings found."""
    from metis.evals import results
    from metis.text.terminal import print_markdown

    out, summary = conduct(chosen, plain_console())
    print()
    print_markdown(results.markdown(summary))
    print(f"\nresults: {out / 'results.json'}, {out / 'results.md'}")
    return 0


def conduct(chosen: argparse.Namespace, console: "Console") -> tuple[Path, dict[str, Any]]:
    """Evaluate, or find what an earlier call with the same settings found: its folder, results."""
    from metis.evals import results
    from metis.evals.results import EvaluationView

    _check(chosen)
    who = subject.find(chosen.subject, chosen.checkpoint).on(
        device=chosen.device, generation=chosen.generation, vllm_cache=chosen.vllm_cache
    )
    evaluation = _evaluation(chosen, who)
    settings = {"schema": results.SCHEMA, **who.about, **evaluation.described}
    out = chosen.out or _default_folder(who, settings)
    require_folder(out)
    # a folder appears when the model of its evaluation is there to answer
    model = None if out.exists() else _model(evaluation, who, console.print)
    with AnswerFolder.open(out, settings) as folder:
        console.print(f"{who.name} on {', '.join(s.title for s in evaluation.sets)} → {out}")
        if finished(evaluation, folder):
            console.print("this evaluation is complete; for another, change a setting or --out")
        else:
            with EvaluationView(console, evaluation) as view:
                answer_all(
                    evaluation, model or _model(evaluation, who, console.print), folder, view
                )
        summary = results.results(evaluation, [row for _, row in folder.rows()], who.about)
        results.write(out, summary)
    return out, summary


def _check(chosen: argparse.Namespace) -> None:
    at_least = {
        0: ("seed", "tokens", "vllm_cache"),
        1: ("samples", "max_tokens", "limit", "rows"),
    }
    for bound, name in ((bound, name) for bound, names in at_least.items() for name in names):
        value, option = getattr(chosen, name), f"--{name.replace('_', '-')}"
        require(value is None or value >= bound, option, value, f"use at least {bound}")
    require(0 < chosen.top_p <= 1, "--top-p", chosen.top_p, "use a share above 0, at most 1")
    heat = chosen.temperature
    fine = heat is None or (math.isfinite(heat) and heat >= 0)
    require(fine, "--temperature", heat, "use 0 (greedy) or a number above 0")
    if chosen.samples > 1:
        same = "greedy answers are all the same: use a number above 0, or --samples 1"
        require(heat != 0, "--temperature", heat, same)


def _evaluation(chosen: argparse.Namespace, who: EvaluatedModel) -> Evaluation:
    place = _place(who)
    rows = chosen.rows or who.engine.round(place)
    tokens = subject.TOKENS[place] if chosen.tokens is None else chosen.tokens
    heat = chosen.temperature
    sampling = Sampling(
        max_tokens=chosen.max_tokens or who.max_tokens or subject.LONGEST[place],
        temperature=heat if heat is not None else float(chosen.samples > 1),
        top_p=chosen.top_p,
    )
    return Evaluation(
        sets=[each.sample(chosen.limit or 0, chosen.seed) for each in _sets(chosen, who)],
        sampling=sampling,
        samples=chosen.samples,
        limits=BatchLimits(rows, tokens),
        rows=rows,
        seed=chosen.seed,
    )


def _sets(chosen: argparse.Namespace, who: EvaluatedModel) -> list[PromptSet]:
    """The run's own test, benchmarks and files, each asked and scored in its way."""
    from metis import config
    from metis.evals.heldout import own_sets

    words = [*chosen.settings, *(word for word in chosen.suite if "=" in word)]
    names = [word for word in chosen.suite if "=" not in word] or [OWN]
    if OWN in names and (not who.settings.get("task") or not (who.run or words)):
        raise MetisError(
            f"{chosen.subject!r} has no held-out prompts of its own: name benchmarks or files with "
            "--suite, or a task, such as task=arithmetic"
        )
    settings = config.revised({"task": dict(subject.PAPER_TASK), **who.settings}, words)
    if chosen.verify is not None and settings["task"].get("name") == "math":
        settings["task"]["verify"] = chosen.verify
    sets = own_sets(settings, who.run) if OWN in names else []
    others = [name for name in names if name != OWN]
    sets += benchmark_sets(others, settings["task"], chosen.data, chosen.verify)
    catalogue.require_distinct(sets)
    return sets


def benchmark_sets(
    names: Sequence[str],
    task: Mapping[str, Any],
    data: Path | None = None,
    verify: bool | None = None,
) -> list[PromptSet]:
    """Benchmarks and files, asked and scored as a run with these settings of its task has them."""
    from metis.settings.sections import task_settings

    if not names:
        return []
    asked = task_settings(({"path": "-"} if task["name"] in READERS else {}) | dict(task))
    return catalogue.load(names, data, Manner.of(asked, verify=verify))


def _place(who: EvaluatedModel) -> str:
    """The device that generates the answers, for the defaults."""
    try:
        from metis.engines.local.model.policy import pick_device
    except ImportError as error:
        raise MetisError(f"metis eval: {error}: {pip_install('local')}") from None
    if who.engine.generation == "vllm":
        return "vllm"
    return "cpu" if pick_device(who.engine.device).type == "cpu" else "gpu"


def _model(evaluation: Evaluation, who: EvaluatedModel, say: Say) -> Any:
    from metis.evals.answers import Answerer

    for each in evaluation.sets:
        scorers(each.task)  # before a model is loaded for answers that cannot be scored
    return Answerer(who.engine, who.checkpoint, evaluation.sampling, say)


def _default_folder(who: EvaluatedModel, settings: dict[str, Any]) -> Path:
    """A name fixed by the settings, so that the same command finds its evaluation again."""
    name = who.name.partition(" (")[0].replace("/", "-")
    return Path("evals") / f"{name}-{digest(settings)}"
