"""Loggers: TensorBoard, wandb or trackio, which get a copy of a run's metrics and sampled answers.

Nothing is read back from a logger. A resumed run continues in the same place, and may log the steps
after its checkpoint again. Environment variables of a service, such as WANDB_PROJECT, take
precedence; the rest comes from the run folder.
"""

import html
import importlib
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from metis import files
from metis.core import Batch, Transcript
from metis.core.values import Turns
from metis.errors import MetisError, require
from metis.text import printable

PROJECT = "metis"
"""The default project of wandb and trackio."""


ANSWERS = "answers"
"""The key of a sample of answers (a table, traces)."""
SAMPLE = 8
"""Answers in a sample, of as many groups."""
COLUMNS = (
    *("step", "id", "category", "prompt", "answer", "reward", "predicted", "reason"),
    *("truncated", "tokens", "failure"),
)
"""The columns of a table of answers."""


@dataclass(frozen=True)
class ShownAnswer:
    """One answer to a prompt; `facts` are its step, its reward, and why the prompt was chosen."""

    id: str
    asked: Turns
    said: Turns
    facts: Mapping[str, Any]

    @property
    def row(self) -> list[Any]:
        """The values of the columns; several turns are one text, with their roles."""
        questions = [_content(turn) for turn in self.asked if turn["role"] == "user"]
        turns = [f"{turn['role']}: {_content(turn)}" for turn in self.said]
        answer = _content(self.said[0]) if len(turns) == 1 else "\n\n".join(turns)
        texts = {"id": self.id, "prompt": "".join(questions[-1:]), "answer": answer}
        return [{**self.facts, **texts}.get(name) for name in COLUMNS]


def _content(turn: Mapping[str, object]) -> str:
    return str(_valid(turn["content"]))


def _valid(value: Any) -> Any:
    """A value whose text is UTF-8, as trackers want it, which half a surrogate pair is not."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def sampled_answers(step: int, batch: Batch) -> Iterator[ShownAnswer]:
    """An answer of each of up to `SAMPLE` groups, spread over the batch."""
    decisions = {each.prompt.id: each for each in batch.decisions if each.chosen}
    told = [group for group in batch.groups if group.transcripts]
    for group in told[:: -(-len(told) // SAMPLE) or 1]:
        prompt, decision = group.prompt, decisions.get(group.prompt.id)
        judged = {"predicted": decision.score, "reason": decision.reason} if decision else {}
        facts = {"step": step, "category": prompt.category, **judged, "variance": group.variance}
        yield _shown(prompt.id, group.transcripts[0], facts)


def _shown(prompt: str, said: Transcript, facts: Mapping[str, Any]) -> ShownAnswer:
    """An answer with those facts that are known."""
    outcome = {"reward": said.reward, "truncated": said.truncated, "tokens": said.tokens}
    known = {**facts, **outcome, "failure": said.failure}
    present = {name: _valid(value) for name, value in known.items() if value not in (None, "")}
    return ShownAnswer(_valid(prompt), said.asked, said.said, present)


class MetricLogger(Protocol):
    """Logs the metrics of every step, its seconds by phase, and answers if it supports them."""

    def log(
        self, step: int, metrics: Mapping[str, float], answers: Sequence[ShownAnswer] = ()
    ) -> None: ...

    def close(self) -> None: ...


def _preformatted(value: Any) -> str:
    """HTML of a value, in which neither Markdown nor tags mean anything."""
    return "" if value is None else f"<pre>{html.escape(printable(str(value)))}</pre>"


def text_table(answers: Sequence[ShownAnswer]) -> Any:
    """A table in TensorBoard's summary format, whose texts are shown as they are."""
    summary: Any = importlib.import_module("tensorboard.compat.proto.summary_pb2").Summary
    tensors: Any = importlib.import_module("tensorboard.compat.proto.tensor_pb2")
    shapes: Any = importlib.import_module("tensorboard.compat.proto.tensor_shape_pb2")
    text: Any = importlib.import_module("tensorboard.plugins.text.metadata")
    rows = [COLUMNS, *(map(_preformatted, answer.row) for answer in answers)]
    cells = [cell.encode() for row in rows for cell in row]
    sizes = [shapes.TensorShapeProto.Dim(size=size) for size in (len(rows), len(COLUMNS))]
    shape = shapes.TensorShapeProto(dim=sizes)
    string = importlib.import_module("tensorboard.compat.proto.types_pb2").DT_STRING
    return summary.Value(
        tag=ANSWERS,
        metadata=text.create_summary_metadata(ANSWERS, ""),
        tensor=tensors.TensorProto(dtype=string, tensor_shape=shape, string_val=cells),
    )


def data_table(wandb: Any, answers: Sequence[ShownAnswer]) -> Any:
    """A `wandb.Table`."""
    return wandb.Table(columns=list(COLUMNS), data=[answer.row for answer in answers])


def traces(trackio: Any, answers: Sequence[ShownAnswer]) -> list[Any]:
    """trackio's `Trace` class; None in older versions."""
    shown = answers if hasattr(trackio, "Trace") else ()
    return [_trace(trackio, answer) for answer in shown]


def _trace(trackio: Any, answer: ShownAnswer) -> Any:
    turns = (*answer.asked, *answer.said)
    messages = [{"role": str(turn["role"]), "content": _content(turn)} for turn in turns]
    return trackio.Trace(messages, {"prompt": answer.id, **answer.facts})


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
        if answers:
            values.append(text_table(answers))
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
        self.wandb: Any = importlib.import_module("wandb")
        places = {self.arguments[name]: value for name, value in self.places(folder).items()}
        self.run: Any = self.wandb.init(**places, config=dict(config), allow_val_change=True)

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
        table = {ANSWERS: data_table(self.wandb, answers)} if answers else {}
        self.run.log({**metrics, **table}, step=step)

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
        told = traces(self.trackio, answers)
        self.trackio.log({**metrics, **({ANSWERS: told} if told else {})}, step=step)

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
