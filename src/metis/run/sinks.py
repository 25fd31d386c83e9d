"""Sinks of metrics and answers beside a run folder: TensorBoard, wandb or trackio, if asked for.

A sink is a copy for looking at: nothing is read back from it. A resumed run goes on in the same
place, and may hand over again the steps after its checkpoint. Variables that a service reads, such
as WANDB_PROJECT, hold; what they leave open comes from the run folder.
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
"""The project that runs are listed under, where a service has projects."""


ANSWERS = "answers"
"""The name of the traces of a step."""


@dataclass(frozen=True)
class ShownAnswer:
    """One answer to a prompt; `facts` are its step, reward, and the prompt's place in the plan."""

    id: str
    prompt: str
    answer: str
    facts: Mapping[str, Any]


def exchanges(
    rollouts: Iterable[Mapping[str, Any]], judgments: Iterable[Mapping[str, Any]]
) -> Iterator[ShownAnswer]:
    """The answers that the rows of a step in `rollouts.jsonl` and `judgments.jsonl` have."""
    chosen = {row["prompt"]: row for row in judgments if row["chosen"]}
    for row in rollouts:
        judged = chosen.get(row["prompt"], {})
        named = {"category": row["category"], "reason": judged.get("reason")}
        numbers = {"predicted": judged.get("score"), "variance": judged.get("variance")}
        for answer, reward in zip(row.get("answers", ()), row["rewards"], strict=False):
            facts = {"step": row["step"], "reward": reward, **named, **numbers}
            present = {name: value for name, value in facts.items() if value not in (None, "")}
            yield ShownAnswer(row["prompt"], row["text"], answer, present)


class Sink(Protocol):
    """Takes the metrics of every step, its seconds by phase, and answers where it shows any."""

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
        if not self.begun:  # tells TensorBoard to forget these steps of a run that was killed
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
    """Arguments of wandb.init in the place of variables. The others are wandb's own affair."""
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
        """The variables that are not set, with the values of a run folder."""
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
        shown = answers if hasattr(self.trackio, "Trace") else ()  # older ones have none
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


SINKS: dict[str, type[TensorBoard] | type[Wandb] | type[Trackio]] = {
    "tensorboard": TensorBoard,
    "wandb": Wandb,
    "trackio": Trackio,
}


def check(names: Sequence[str], key: str = "sinks") -> None:
    """Refuse a sink that is unknown, or whose package is not installed."""
    for name in names:
        require(name in SINKS, key, name, f"use some of {', '.join(SINKS)}")
        package = SINKS[name].package
        try:
            importlib.import_module(package)
        except ImportError:
            raise MetisError(f"{key} = {name!r}: needs {package}: pip install {package}") from None


@contextmanager
def opened(names: Sequence[str], folder: Path, config: Mapping[str, Any]) -> Iterator[list[Sink]]:
    """The sinks of those names for a run folder, each once; closed at the end, come what may."""
    check(names)
    with ExitStack() as stack:
        sinks: list[Sink] = []
        for name in dict.fromkeys(names):
            sink = _open(name, folder, config)
            stack.callback(_close, sink)
            sinks.append(sink)
        yield sinks


def _close(sink: Sink) -> None:
    """One that fails at its end has had its steps, and takes nothing with it."""
    with suppress(Exception):
        sink.close()


def _open(name: str, folder: Path, config: Mapping[str, Any]) -> Sink:
    try:
        return SINKS[name](folder.resolve(), config)
    except Exception as error:  # each service has errors of its own, for a missing key or network
        reason = " ".join(str(error).split()) or type(error).__name__
        raise MetisError(
            f"sinks = {name!r} could not be started ({reason}): set it up, or leave it out"
        ) from None


def variables(names: Sequence[str], folder: Path) -> dict[str, str]:
    """Variables that lead a program which opens sinks of its own to those of a run folder."""
    environment: dict[str, str] = {}
    if "tensorboard" in names and not _set("TENSORBOARD_DIR"):
        environment["TENSORBOARD_DIR"] = TensorBoard.place(folder)
    if "wandb" in names:
        environment |= Wandb.places(folder)
    return environment


def shared(names: Sequence[str]) -> dict[str, str]:
    """Variables that are set here and that the processes of another machine need for these sinks.

    No key or token is among them: they would be read in its command line and its logs.
    """
    wanted = (variable for name in names for variable in SINKS[name].shared)
    return {variable: value for variable in wanted if (value := _set(variable))}


def titles(names: Sequence[str], folder: Path) -> tuple[str, str]:
    """Project and run, for a program that has one name of each for all of its sinks."""
    project = "WANDB_PROJECT" if "wandb" in names else "TRACKIO_PROJECT"
    run = _set("WANDB_NAME") if "wandb" in names else ""
    return _set(project) or PROJECT, run or folder.name


def _set(variable: str) -> str:
    """The value of a variable; empty where it has none."""
    return os.environ.get(variable, "")


def _identity(folder: Path) -> str:
    """A name for the run that no other folder has, the same after a resume."""
    path = folder / "sinks.id"
    if not path.exists():
        with files.atomic(path) as file:
            file.write(f"{uuid.uuid4().hex[:12]}\n".encode())
    return path.read_text("utf-8").strip()
