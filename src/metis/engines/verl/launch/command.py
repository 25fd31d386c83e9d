"""`metis train engine=verl`: turns a recipe into verl's command line, prints it and runs it.

The run folder has the task as parquet files for verl, verl's checkpoints, and METIS's logs. The
same command resumes.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from metis.core import state
from metis.core.needs import needs_of
from metis.core.pool import Pool
from metis.curricula.registry import check_pool, pool_notice
from metis.data import parquet
from metis.data.verl_rows import verl_row
from metis.engines import model_files
from metis.engines.verl import checkpoints, ending
from metis.engines.verl.launch.costs import judge_cost
from metis.engines.verl.launch.from_recipe import attention, overrides, process_variables
from metis.engines.verl.launch.space import space_notice
from metis.errors import MetisError, first_line, pip_install, require
from metis.run import sources
from metis.run.budget import Account, Budget
from metis.run.folder import RunFolder, check_run_folder, resume_remark
from metis.run.manifest import completion_message, describe_changes, read_config
from metis.run.waiting import Say
from metis.tasks.base import scorers
from metis.tasks.benchmarks.sets import reference
from metis.tasks.benchmarks.validation import benchmark

MAIN = [
    *("-m", "verl.trainer.main_ppo"),
    *("--config-path", "pkg://metis.engines.verl.config", "--config-name", "metis_trainer"),
]

ALONE = "in an environment of its own (it cannot share one with trl)"
"""Where to install verl."""

PATIENCE = 20.0
"""Seconds for verl to stop its workers after Ctrl-C."""


def foreseen(config: Any, out: Path) -> Iterator[str]:
    """Run the checks of a start; yields remarks on the run and on the printed command."""
    if config.task is None:
        return
    yield from _ahead(config, out, dry_run=True)
    given, step = config.engine.overrides, _next_step(config, out)
    settings, anew = (
        checkpoints.settings_of_the_run(config.resolved),
        checkpoints.reason_to_begin_anew(given),
    )
    if there := resume_remark(out, settings, _may_change(config, out), step, anew):
        yield (
            completion_message(out, step, config.training.steps)
            if _complete(config, out)
            else there
        )


def command(config: Any, out: Path) -> str:
    """verl's command line, to copy; its data files are written when a run starts."""
    if config.task is None:
        why = "; ".join(config.missing)
        raise MetisError(f"no verl command is printed, since its data is missing: {why}")
    return _written(_arguments(config, out, config.engine.model), process_variables(config.engine))


def conduct(config: Any, out: Path, view: Any, on_step: Any, say: Say) -> int:
    """Run the command in a run folder; returns its exit code."""
    if on_step:
        raise MetisError(
            "on_step: verl trains in its own processes; read the run's metrics instead"
        )
    for remark in _ahead(config, out, dry_run=False):
        print(f"metis: {remark}", file=sys.stderr)
    model = str(model_files.model(config.engine.model).absolute())
    arguments, environment = _arguments(config, out, model), process_variables(config.engine)
    step, settings = _next_step(config, out), checkpoints.settings_of_the_run(config.resolved)
    may_change = _may_change(config, out)
    check_run_folder(out, settings, may_change)
    if _complete(config, out):
        say(completion_message(out, step, config.training.steps))
        return 0
    for text in sources.check_sources(out, settings, step > 0):
        print(f"metis: {text}", file=sys.stderr)
    with RunFolder.open(out, settings, may_change, step) as folder:
        sources.write_sources(out, settings)
        if folder.changes:
            print(f"from here on {describe_changes(folder.changes)}", flush=True)
        write_data(config, out / "data")
    print(_written(arguments, environment), flush=True)
    ending.forget(out / "verl")
    code = _run([sys.executable, *arguments], {**os.environ, **environment})
    if code and (why := ending.reason(out / "verl")):
        print(f"metis: {why}", file=sys.stderr)
    return code


def _arguments(config: Any, out: Path, model: str) -> list[str]:
    return [*MAIN, *overrides(config, out.absolute(), model)]


def _next_step(config: Any, out: Path) -> int:
    """The step that this start resumes from."""
    return checkpoints.step_at_start(config.engine.overrides, out / "verl")


def _ahead(config: Any, out: Path, dry_run: bool) -> Iterator[str]:
    """Run all checks; yields remarks."""
    pool = config.pool()
    _check(config, pool, dry_run)
    yield from _look_ahead(config, out, dry_run)
    yield from pool_notice(pool, config.curriculum, config.training.batch)
    yield from _remarks(config, out, dry_run)


def _look_ahead(config: Any, out: Path, dry_run: bool) -> Iterator[str]:
    """Run verl's own checks; yields remarks on what cannot be checked here."""
    if dry_run and (unknown := model_files.look_for(config.engine.model)):
        yield unknown
    words = overrides(config, out.absolute(), config.engine.model)
    if find_spec("verl") is None:
        yield "verl is not installed here: its settings were not checked"
        return
    try:
        from metis.engines.verl.launch import checks
    except ImportError as error:
        raise MetisError(
            f"engine = 'verl': verl cannot be imported ({first_line(error)}): "
            f"{pip_install('verl')} {ALONE}"
        ) from None
    checks.check_command(words, needs_of(config.curriculum))


def _remarks(config: Any, out: Path, dry_run: bool) -> Iterator[str]:
    """Remarks on the judge's cost on verl, on room for checkpoints, and on the printed command."""
    if cost := judge_cost(needs_of(config.curriculum)):
        yield cost
    if lacking := space_notice(config, out):
        yield lacking
    if not dry_run:
        return
    yield f"without --dry-run the data that the command reads is written to {out / 'data'} first"
    if config.engine.model in model_files.WHEELS:
        yield f"replace {config.engine.model} by the folder that METIS downloads it to"
    if attention(config.engine.overrides):
        yield "flash-attn is not installed here, so the command asks for PyTorch's own attention"


def _written(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """The command line, one setting per line."""
    words = [shlex.quote(word) for word in arguments]
    given = [f"{name}={value}" for name, value in environment.items()]
    start = " ".join([*given, "python", *words[: len(MAIN)]])
    return " \\\n    ".join([start, *words[len(MAIN) :]])


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Run a command; on Ctrl-C or SIGTERM it has time to stop its workers and free the GPUs."""
    process = subprocess.Popen(command, env=environment)
    with _told_to_end(process.terminate):
        try:
            code = process.wait()
        except KeyboardInterrupt:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=PATIENCE)
            process.kill()
            raise
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _told_to_end(end: Callable[[], None]) -> Iterator[None]:
    """Forward SIGTERM, if in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: end())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _may_change(config: Any, out: Path) -> tuple[str, ...]:
    """Settings that may differ from those of the run in the folder."""
    if not _begun(out):
        return tuple(config.resolved)
    before = read_config(out).get("engine", {}).get("overrides", ())
    same = checkpoints.same_run(before, config.engine.overrides)
    return (*config.may_change, *(("engine.overrides",) if same else ()))


def _begun(out: Path) -> bool:
    """True if the run has reached its first step, after which its settings are fixed."""
    timings = out / "timings.jsonl"
    return _reached(out) > 0 or (timings.exists() and timings.stat().st_size > 0)


def _reached(out: Path) -> int:
    """The step of verl's latest checkpoint."""
    return checkpoints.last_complete(out / "verl") or 0


def _complete(config: Any, out: Path) -> bool:
    """True if the start would resume from the latest checkpoint, which has used up the budget."""
    return checkpoints.resumes_latest(config.engine.overrides) and finished(
        out, config.training.budget
    )


def finished(out: Path, budget: Budget) -> bool:
    """True if verl's latest checkpoint has used up the budget."""
    step = _reached(out)
    saved = out / "verl" / f"global_step_{step}" / "metis.state"
    return saved.exists() and Account.of(budget, step, state.load_state(saved)).fraction >= 1


def _check(config: Any, pool: Pool, dry_run: bool) -> None:
    if not dry_run:
        scorers(config.task)
    require(
        not needs_of(config.curriculum).judges or config.engine.temperature == 1,
        "engine.temperature",
        config.engine.temperature,
        "judgments are trained at the temperature of the rollouts, so a curriculum with a judge "
        "needs 1",
    )
    check_pool(pool, config.curriculum, config.training.batch)
    needed = ["verl", "vllm"] if config.engine.generation == "vllm" else ["verl"]
    for name in needed:
        if not dry_run and find_spec(name) is None:
            raise MetisError(
                f"engine = 'verl': {name} is not installed: {pip_install('verl')} {ALONE}"
            )


def write_data(config: Any, folder: Path) -> None:
    """Write training and validation prompts; verl reports metrics per data source."""
    folder.mkdir(exist_ok=True)
    task, tested = config.task, bool(config.training.benchmarks)
    for split, prompts in (("train", task.training()), ("heldout", task.heldout())):
        opened = ((prompt, task.episode(prompt)) for prompt in prompts)
        rows = [
            verl_row(
                prompt,
                episode.chat,
                index,
                source=benchmark(prompt.id) if tested and split == "heldout" else "metis",
                ability=prompt.category,
                split=split,
                ground_truth=reference(episode),
            )
            for index, (prompt, episode) in enumerate(opened)
        ]
        parquet.write(folder / f"{split}.parquet", rows, {"task": type(task).__name__})
