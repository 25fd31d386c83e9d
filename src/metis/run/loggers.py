"""Loggers: TensorBoard, wandb or trackio, which get a copy of a run's metrics and some answers.

Nothing is read back from a logger. A resumed run continues in the same place, and may log the steps
after its checkpoint again. Environment variables of a service, such as WANDB_PROJECT, take
precedence; the rest comes from the run folder.
"""

import importlib
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from metis import files
from metis.errors import MetisError, require

PROJECT = "metis"
"""The default project of wandb and trackio."""


ANSWERS = "answers"
"""The key of a step's answers (traces)."""


@dataclass(frozen=True)
class ShownAnswer:
    """One answer to a prompt; `facts` are its step, its reward, and why the prompt was chosen."""

    id: str
    prompt: str
    answer: str
    facts: Mapping[str, Any]


def logged_answers(
    rollouts: Iterable[Mapping[str, Any]], judgments: Iterable[Mapping[str, Any]]
) -> Iterator[ShownAnswer]:
    """The answers in a step's rows of `rollouts.jsonl` and `judgments.jsonl`."""
    chosen = {row["prompt"]: row for row in judgments if row["chosen"]}
    for row in rollouts:
        judged = chosen.get(row["prompt"], {})
        named = {"category": row["category"], "reason": judged.get("reason")}
        numbers = {"predicted": judged.get("score"), "variance": judged.get("variance")}
        for answer, reward in zip(row.get("answers", ()), row["rewards"], strict=False):
            facts = {"step": row["step"], "reward": reward, **named, **numbers}
            present = {name: value for name, value in facts.items() if value not in (None, "")}
            yield ShownAnswer(row["prompt"], row["text"], answer, present)


class MetricLogger(Protocol):
    """Logs the metrics of every step, its seconds by phase, and answers if it supports them."""

    def log(
        self, step: int, metrics: Mapping[str, float], answers: Sequence[ShownAnswer] = ()
    ) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in TENSORBOARD_DIR, or in the run folder: `tensorboard --logdir runs`."""

    package = "tensorboard"
    shared: ClassVar = ("TENSORBOARD_DIR",)

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        events = importlib.import_module("tensorboard.summary.writer.event_file_writer")
        self.proto: Any = importlib.import_module("tensorboard.compat.proto.event_pb2")
        self.summary: Any = importlib.import_module("tensorboard.compat.proto.summary_pb2").Summary
        self.writer: Any = events.EventFileWriter(_set("TENSORBOARD_DIR") or self.place(folder))
        self.begun = False

    @staticmethod
    def place(folder: Path) -> str:
        return str(folder / "tensorboard")

    def log(
        self, step: int, metrics: Mapping[str, float], answers: Sequence[ShownAnswer] = ()
    ) -> None:
        if not self.begun:  # makes TensorBoard drop later steps, logged before a run was killed
            self._add(step, session_log=self.proto.SessionLog(status=self.proto.SessionLog.START))
            self.begun = True
        value = self.summary.Value
        values = [value(tag=name, simple_value=number) for name, number in metrics.items()]
        self._add(step, summary=self.summary(value=values))

    def _add(self, step: int, **content: Any) -> None:
        self.writer.add_event(self.proto.Event(step=step, wall_time=time.time(), **content))

    def close(self) -> None:
        self.writer.close()


class Wandb:
    """A run of Weights & Biases."""

    package = "wandb"
    arguments: ClassVar = {
        "WANDB_PROJECT": "project",
        "WANDB_NAME": "name",
        "WANDB_RUN_ID": "id",
        "WANDB_RESUME": "resume",
        "WANDB_DIR": "dir",
    }
    """Environment variables with the `wandb.init` arguments that replace them."""
    shared: ClassVar = (
        *arguments,
        *("WANDB_BASE_URL", "WANDB_ENTITY", "WANDB_JOB_TYPE", "WANDB_MODE", "WANDB_NOTES"),
        *("WANDB_RUN_GROUP", "WANDB_TAGS"),
    )

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        wandb: Any = importlib.import_module("wandb")
        places = {self.arguments[name]: value for name, value in self.places(folder).items()}
        self.run: Any = wandb.init(**places, config=dict(config), allow_val_change=True)

    @classmethod
    def places(cls, folder: Path) -> dict[str, str]:
        """Values from the run folder for variables that are not set."""
        values = {
            "WANDB_PROJECT": PROJECT,
            "WANDB_NAME": folder.name,
            "WANDB_RESUME": "allow",
            "WANDB_DIR": str(folder),
        }
        if not _set("WANDB_RUN_ID"):
            values["WANDB_RUN_ID"] = _identity(folder)
        return {name: value for name, value in values.items() if not _set(name)}

    def log(
        self, step: int, metrics: Mapping[str, float], answers: Sequence[ShownAnswer] = ()
    ) -> None:
        traced = {ANSWERS: self._tree(step, answers)} if answers else {}
        self.run.log({**metrics, **traced}, step=step)

    def _tree(self, step: int, answers: Sequence[ShownAnswer]) -> Any:
        """A trace of the step with a span for each answer."""
        tree: Any = importlib.import_module("wandb.sdk.data_types.trace_tree")
        spans = [
            tree.Span(
                name=answer.id,
                span_kind=tree.SpanKind.LLM,
                attributes=dict(answer.facts),
                results=[tree.Result({"prompt": answer.prompt}, {"answer": answer.answer})],
            )
            for answer in answers
        ]
        kind = tree.SpanKind.CHAIN
        return tree.WBTraceTree(tree.Span(name=f"step {step}", span_kind=kind, child_spans=spans))

    def close(self) -> None:
        self.run.finish()


class Trackio:
    """A run of trackio, on this machine unless TRACKIO_SPACE_ID or TRACKIO_SERVER_URL is set."""

    package = "trackio"
    shared: ClassVar = ("TRACKIO_PROJECT", "TRACKIO_SPACE_ID", "TRACKIO_DIR")

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self.trackio: Any = importlib.import_module("trackio")
        name = f"{folder.name}-{_identity(folder)}"
        project = _set("TRACKIO_PROJECT") or PROJECT
        self.trackio.init(project=project, name=name, config=dict(config), resume="allow")

    def log(
        self, step: int, metrics: Mapping[str, float], answers: Sequence[ShownAnswer] = ()
    ) -> None:
        shown = answers if hasattr(self.trackio, "Trace") else ()  # older versions have none
        traces = [self._trace(answer) for answer in shown]
        self.trackio.log({**metrics, **({ANSWERS: traces} if traces else {})}, step=step)

    def _trace(self, answer: ShownAnswer) -> Any:
        messages = [
            {"role": "user", "content": answer.prompt},
            {"role": "assistant", "content": answer.answer},
        ]
        return self.trackio.Trace(messages, {"prompt": answer.id, **answer.facts})

    def close(self) -> None:
        self.trackio.finish()


LOGGERS: dict[str, type[TensorBoard] | type[Wandb] | type[Trackio]] = {
    "tensorboard": TensorBoard,
    "wandb": Wandb,
    "trackio": Trackio,
}


def check_loggers(names: Sequence[str], key: str = "loggers") -> None:
    """Refuse a logger that is unknown, or whose package is not installed."""
    for name in names:
        require(name in LOGGERS, key, name, f"use some of {', '.join(LOGGERS)}")
        package = LOGGERS[name].package
        try:
            importlib.import_module(package)
        except ImportError:
            raise MetisError(f"{key} = {name!r}: needs {package}: pip install {package}") from None


@contextmanager
def opened_loggers(
    names: Sequence[str], folder: Path, config: Mapping[str, Any]
) -> Iterator[list[MetricLogger]]:
    """The loggers of a run, opened by name; all are closed at the end."""
    check_loggers(names)
    with ExitStack() as stack:
        loggers: list[MetricLogger] = []
        for name in dict.fromkeys(names):
            logger = _open(name, folder, config)
            stack.callback(_close, logger)
            loggers.append(logger)
        yield loggers


def _close(logger: MetricLogger) -> None:
    """Errors are ignored: all steps were logged already."""
    with suppress(Exception):
        logger.close()


def _open(name: str, folder: Path, config: Mapping[str, Any]) -> MetricLogger:
    try:
        return LOGGERS[name](folder.resolve(), config)
    except Exception as error:  # each service has its own errors for a missing key or network
        reason = " ".join(str(error).split()) or type(error).__name__
        raise MetisError(
            f"loggers = {name!r} could not be started ({reason}): set it up, or leave it out"
        ) from None


def run_variables(names: Sequence[str], folder: Path) -> dict[str, str]:
    """Environment variables that make a program's own loggers (verl's) log to this run."""
    environment: dict[str, str] = {}
    if "tensorboard" in names and not _set("TENSORBOARD_DIR"):
        environment["TENSORBOARD_DIR"] = TensorBoard.place(folder)
    if "wandb" in names:
        environment |= Wandb.places(folder)
    return environment


def forwarded_variables(names: Sequence[str]) -> dict[str, str]:
    """Environment variables set here that these loggers need on other machines.

    API keys are left out: they would show up in command lines and logs there.
    """
    wanted = (variable for name in names for variable in LOGGERS[name].shared)
    return {variable: value for variable in wanted if (value := _set(variable))}


def project_and_run(names: Sequence[str], folder: Path) -> tuple[str, str]:
    """The project and run names, for a program with one of each for all of its loggers."""
    project = "WANDB_PROJECT" if "wandb" in names else "TRACKIO_PROJECT"
    run = _set("WANDB_NAME") if "wandb" in names else ""
    return _set(project) or PROJECT, run or folder.name


def _set(variable: str) -> str:
    """The value of an environment variable, or empty."""
    return os.environ.get(variable, "")


def _identity(folder: Path) -> str:
    """A unique id of the run folder, kept across resumes."""
    path = folder / "sinks.id"  # the name in folders of any version
    if not path.exists():
        with files.atomic(path) as file:
            file.write(f"{uuid.uuid4().hex[:12]}\n".encode())
    return path.read_text("utf-8").strip()
