"""`metis train engine=verl`: a recipe as verl's own command line, printed and run.

The run folder holds the task as parquet files that verl reads, verl's checkpoints, and the logs of
every other run. Running the same command again resumes.
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
from metis.engines import model_files
from metis.engines.verl import checkpoints
from metis.engines.verl.launch.costs import judge_cost
from metis.engines.verl.launch.datafiles import write_data
from metis.engines.verl.launch.from_recipe import attention, overrides, variables
from metis.errors import MetisError, first_line, install, require
from metis.run import sources
from metis.run.budget import Account
from metis.run.folder import RunFolder, check, resumption
from metis.run.manifest import complete, described, read
from metis.tasks.base import scorers

MAIN = [
    *("-m", "verl.trainer.main_ppo"),
    *("--config-path", "pkg://metis.engines.verl.config", "--config-name", "metis_trainer"),
]

ALONE = "in an environment of its own (it cannot share one with trl)"
"""Where verl is to be installed."""

PATIENCE = 20.0
"""Seconds that verl has to end its workers after Ctrl-C."""


def launch(config: Any, out: Path, dry_run: bool) -> int:
    """Print the command, and unless it is a dry run, run it."""
    pool = config.pool()
    _check(config, pool, dry_run)
    remarks = (
        *_look_ahead(config, out, dry_run),
        *pool_notice(pool, config.curriculum, config.training.batch),
        *_remarks(config, out, dry_run),
    )
    for remark in remarks:
        print(f"metis: {remark}", file=sys.stderr)
    arguments = [*MAIN, *overrides(config, out.absolute(), _model(config, dry_run))]
    environment = variables(config.engine)
    reached = checkpoints.step_at_start(config.engine.overrides, out / "verl")
    settings = checkpoints.settings_of_the_run(config.resolved)
    may_change = _may_change(config, out)
    if dry_run:
        anew = checkpoints.reason_to_begin_anew(config.engine.overrides)
        if there := resumption(out, settings, may_change, reached, anew):
            done = _complete(config, out)
            told = complete(out, reached, config.training.steps) if done else there
            print(f"metis: {told}", file=sys.stderr)
        print(_command(arguments, environment))
        return 0
    check(out, settings, may_change)
    if _complete(config, out):
        print(complete(out, reached, config.training.steps))
        return 0
    for text in sources.check(out, settings, reached):
        print(f"metis: {text}", file=sys.stderr)
    with RunFolder.open(out, settings, may_change, reached) as folder:
        sources.write(out, settings)
        if folder.changes:
            print(f"from here on {described(folder.changes)}", flush=True)
        write_data(config, out / "data")
    print(_command(arguments, environment), flush=True)
    return _run([sys.executable, *arguments], {**os.environ, **environment})


def _look_ahead(config: Any, out: Path, dry_run: bool) -> Iterator[str]:
    """Refuse what verl would refuse at its start; remarks about what cannot be known here."""
    if dry_run and (unknown := model_files.look_for(config.engine.model)):
        yield unknown
    words = overrides(config, out.absolute(), config.engine.model)
    if find_spec("verl") is None:
        yield "verl is not installed here: its settings were not checked"
        return
    try:
        from metis.engines.verl.launch import preflight
    except ImportError as error:
        raise MetisError(
            f"engine = 'verl': verl does not load ({first_line(error)}): {install('verl')} {ALONE}"
        ) from None
    preflight.check(words, needs_of(config.curriculum))


def _remarks(config: Any, out: Path, dry_run: bool) -> Iterator[str]:
    """Remarks: the cost of a recipe here, and the omissions of a printed command."""
    if cost := judge_cost(needs_of(config.curriculum)):
        yield cost
    if not dry_run:
        return
    yield f"without --dry-run the data that the command reads is written to {out / 'data'} first"
    if config.engine.model in model_files.WHEELS:
        yield f"{config.engine.model} stands for the folder that METIS fetches it to"
    if attention(config.engine.overrides):
        yield "flash-attn is not installed here, so the command asks for PyTorch's own attention"


def _command(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """The command as a person copies it, a setting on each line."""
    words = [shlex.quote(word) for word in arguments]
    given = [f"{name}={value}" for name, value in environment.items()]
    start = " ".join([*given, "python", *words[: len(MAIN)]])
    return " \\\n    ".join([start, *words[len(MAIN) :]])


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Ctrl-C reaches the command too, which is given time to end its workers.

    So does a polite end from elsewhere: a command left behind would keep its GPUs.
    """
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
    """Pass SIGTERM on, where this thread may listen to it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: end())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _may_change(config: Any, out: Path) -> tuple[str, ...]:
    """Settings that this start may have others of than the run in its folder."""
    if not _begun(out):
        return tuple(config.resolved)
    before = read(out).get("engine", {}).get("overrides", ())
    same = checkpoints.same_run(before, config.engine.overrides)
    return (*config.may_change, *(("engine.overrides",) if same else ()))


def _begun(out: Path) -> bool:
    """True of a run that has come to its first step, after which its settings stay."""
    timings = out / "timings.jsonl"
    return _reached(out) > 0 or (timings.exists() and timings.stat().st_size > 0)


def _reached(out: Path) -> int:
    """The step of verl's latest checkpoint."""
    return checkpoints.last_whole(out / "verl") or 0


def _complete(config: Any, out: Path) -> bool:
    """True where verl's latest checkpoint is at the end of the budget, and is to be trained on."""
    if not checkpoints.goes_on(config.engine.overrides):
        return False
    step = _reached(out)
    saved = out / "verl" / f"global_step_{step}" / "metis.state"
    if not saved.exists():
        return False
    return Account.of(config.training.budget, step, state.load(saved)).fraction >= 1


def _check(config: Any, pool: Pool, dry_run: bool) -> None:
    if not dry_run:
        scorers(config.task)
    require(
        not needs_of(config.curriculum).judges or config.engine.temperature == 1,
        "engine.temperature",
        config.engine.temperature,
        "judgments are trained at the temperature of the rollouts, so a curriculum that judges "
        "needs 1",
    )
    check_pool(pool, config.curriculum, config.training.batch)
    needed = ["verl", "vllm"] if config.engine.generation == "vllm" else ["verl"]
    for name in needed:
        if not dry_run and find_spec(name) is None:
            raise MetisError(f"engine = 'verl': {name} is not installed: {install('verl')} {ALONE}")


def _model(config: Any, dry_run: bool) -> str:
    return (
        config.engine.model if dry_run else str(model_files.model(config.engine.model).absolute())
    )
