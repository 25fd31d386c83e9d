"""Trains and evaluates the runs of a plan, several at a time, and shows their progress.

A failed run does not stop the others.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import NamedTuple, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from metis.comparisons import benchmarks
from metis.comparisons.ending import look, settled
from metis.comparisons.plan import ComparisonPlan
from metis.config import Config
from metis.config.generation import SHARED
from metis.errors import MetisError
from metis.run import folder as run_folder
from metis.run import manifest
from metis.run.budget import Budget
from metis.text import printable

FIXED = (*(part.name for part in fields(Budget)), "engine.learning_rate")
"""Settings that a run may change on its way, and the runs of a comparison must share."""
TRACEBACK = "Traceback (most recent call last):"
REFUSED = 2
"""Exit code of a run that has said in a line what is wrong."""
PERIOD = 1.0
"""Seconds between two looks at the logs."""


class Watcher(Protocol):
    """Callbacks for the start and the end of every run."""

    def began(self, run: str, folder: Path, steps: int) -> None: ...

    def ended(self, run: str, failure: str | None) -> None: ...


def devices() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name]
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return []
    return listed.stdout.split()


class Pending(NamedTuple):
    """A run that is not finished: its name, the command lines that are left, one after the other,
    and the steps it will have."""

    name: str
    commands: list[list[str]]
    steps: int


def pending(plan: ComparisonPlan, configs: Mapping[str, Config], out: Path) -> list[Pending]:
    """The runs of a plan that are to be trained or evaluated; refused where the others had other
    settings."""
    left = []
    for variant, seed in plan.runs():
        settings, folder = configs[variant.name], out / variant.run(seed)
        commands = []
        if settled(plan, folder):
            _require_unchanged(settings, folder)
        else:
            benchmarks.forget(out, folder.name)
            commands.append(plan.command(variant, seed, out))
        if plan.suite.names and not benchmarks.finished(out, folder.name):
            commands.append(benchmarks.command(plan.suite, out, folder.name))
        if commands:
            left.append(Pending(folder.name, commands, settings.training.budget.steps))
    return left


def _require_unchanged(settings: Config, folder: Path) -> None:
    """Refuse a recipe that was edited after a run was trained by it; keys that only one of them
    knows are those of another version."""
    if look(folder)[0] is None:  # it is named as missing, and in no table
        return
    free = ("seed", *(key for key in settings.may_change if key not in FIXED))
    resolved = json.loads(json.dumps(settings.resolved))
    for key, old, new in manifest.differences(manifest.read_config(folder), resolved):
        both = old is not None and new is not None
        if both and not any(key == name or key.startswith(f"{name}.") for name in free):
            raise MetisError(
                f"{key} = {new!r}: {folder.name} was trained with {old!r}; restore the recipe, or "
                "name another --out"
            )


class Schedule:
    """Runs as processes, `jobs` at a time, each on the next GPU where there are several."""

    def __init__(
        self,
        out: Path,
        jobs: int,
        gpus: Sequence[str],
        watch: Watcher,
        finish: Callable[[str], None],
    ) -> None:
        """`finish` is called with the name of a run that spent its budget and was evaluated."""
        self.out, self.jobs, self.watch, self.finish = out, jobs, watch, finish
        self.shared = jobs > max(1, len(gpus))
        self.slots: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        for place in range(jobs):
            self.slots.put(gpus[place % len(gpus)] if len(gpus) > 1 else None)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.failures: dict[str, str] = {}
        self.stopped = False
        self.lock = threading.Lock()

    def train(self, runs: Sequence[Pending]) -> None:
        """Train and evaluate runs; `failures` then says of each that failed why."""
        with _signals(self._interrupt), ThreadPoolExecutor(self.jobs) as pool:
            for future in [pool.submit(self._run, run) for run in runs]:
                future.result()

    def _run(self, run: Pending) -> None:
        slot = self.slots.get()
        try:
            if self.stopped:
                return
            self.watch.began(run.name, self.out / run.name, run.steps)
            if all(self._succeeds(run.name, command, slot) for command in run.commands):
                with self.lock:
                    self.finish(run.name)
            self.watch.ended(run.name, self.failures.get(run.name))
        finally:
            self.slots.put(slot)

    def _succeeds(self, run: str, command: list[str], slot: str | None) -> bool:
        """True where a command comes to its end; of one that fails, the reason is kept."""
        with (self.out / f"{run}.log").open("ab") as log:
            before = log.tell()
            process = self._start(run, command, log.fileno(), slot)
            if process is None:
                return False
            code = process.wait()
        with self.lock:
            del self.processes[run]
        if process.stdin:
            process.stdin.close()
        if code not in (0, 130):
            self.failures[run] = _failure(code, self.out / f"{run}.log", before)
        return code == 0

    def _start(
        self, run: str, command: list[str], log: int, gpu: str | None
    ) -> "subprocess.Popen[bytes] | None":
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}  # a log that can be followed
        if self.shared:
            environment[SHARED] = "1"
        if gpu:
            environment["CUDA_VISIBLE_DEVICES"] = gpu
        with self.lock:
            if self.stopped:
                return None
            process = subprocess.Popen(
                [sys.executable, "-m", "metis.comparisons.child", "metis.cli", *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # a Ctrl-C reaches it once, by way of this process
            )
            self.processes[run] = process
        if self.stopped:  # a Ctrl-C that came meanwhile did not reach it
            process.send_signal(signal.SIGINT)
        return process

    def _interrupt(self) -> None:
        """Start nothing more; what runs ends after its step, the second time at once."""
        self.stopped = True
        for process in list(self.processes.values()):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)


@contextlib.contextmanager
def _signals(heard: Callable[[], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        heard()

    before: Mapping[int, object] = {
        number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


def _failure(code: int, log: Path, before: int) -> str:
    """The reason that a run ended: the signal that killed it, or what it has said since its log
    had so many bytes."""
    if code < 0:
        kill = " (out of memory?)" if -code == signal.SIGKILL else ""
        return f"killed by {signal.Signals(-code).name}{kill}"
    said = log.read_bytes()[before:].decode("utf-8", "replace")
    lines = [line.rstrip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("metis: ")]
    if code == REFUSED and errors:
        return printable(errors[-1].removeprefix("metis: "))
    if (raised := _raised(lines)) is not None:
        return printable(raised)
    return printable(f"{lines[-1]} (exit code {code})") if lines else f"exit code {code}, no output"


def _raised(lines: Sequence[str]) -> str | None:
    """The exception of the last traceback: the first line after its frames."""
    starts = [place for place, line in enumerate(lines) if line == TRACEBACK]
    after = lines[starts[-1] + 1 :] if starts else []
    return next((line for line in after if not line.startswith(" ")), None)


class ComparisonView:
    """A progress bar for every active run; a line for every start and end."""

    def __init__(self, console: Console, runs: int) -> None:
        self.console, self.runs, self.done = console, runs, 0
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
            disable=not console.is_interactive,
        )
        self.tasks: dict[str, tuple[TaskID, Path]] = {}
        self.closing = threading.Event()
        self.looking = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "ComparisonView":
        self.bars.start()
        self.looking.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.closing.set()
        self.looking.join()
        self.bars.stop()

    def began(self, run: str, folder: Path, steps: int) -> None:
        task = self.bars.add_task(run, total=steps or None, note="loading")
        self.tasks[run] = task, folder
        if not self.console.is_interactive:
            self.console.print(f"{run}: begun")

    def ended(self, run: str, failure: str | None) -> None:
        self.done += 1
        task, folder = self.tasks.pop(run)
        self.bars.remove_task(task)
        step, accuracy = progress(folder)
        said = f"failed: {failure}" if failure is not None else f"step {step:,}{accuracy}"
        self.console.print(f"{run}: {said} ({self.done} of {self.runs})")

    def _look(self) -> None:
        while not self.closing.wait(PERIOD):
            for task, folder in list(self.tasks.values()):
                step, accuracy = progress(folder)
                if step or accuracy:
                    with contextlib.suppress(KeyError):  # the run has ended meanwhile
                        self.bars.update(task, completed=step, note=accuracy.removeprefix(", "))


def progress(folder: Path) -> tuple[int, str]:
    """Steps done, and the last test in words, as far as the log of a run has them."""
    step, accuracy = 0, ""
    with contextlib.suppress(MetisError):  # a damaged log is for the comparison to name
        for row in run_folder.read_log(folder, "metrics", optional=True):
            step = row["step"]
            if "eval/accuracy" in row:
                accuracy = f", held-out accuracy {row['eval/accuracy']:.3f} at step {step}"
    return step, accuracy
