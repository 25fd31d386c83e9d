"""Logs sampled answers to verl's trackers (W&B, Trackio, TensorBoard); verl itself logs metrics."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from metis.core import Batch
from metis.errors import first_line
from metis.run.loggers import ANSWERS, ShownAnswer, data_table, sampled_answers, text_table, traces


class Trackers:
    """Logs a sample of the answers every `every` steps; 0 is never."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.dropped: set[str] = set()
        """Trackers that failed and are skipped from then on."""

    def show(self, tracking: Any, step: int, batch: Batch) -> Iterator[str]:
        """Log answers to the trackers in verl's `Tracking`; yields notices."""
        answers = [] if not self.every or step % self.every else list(sampled_answers(step, batch))
        for name, send in SENDERS.items():
            if answers and name in tracking.logger and name not in self.dropped:
                try:
                    send(tracking, step, answers)
                except Exception as error:  # such as a lost network connection
                    self.dropped.add(name)
                    yield f"no more answers are logged to {name} ({first_line(error)})"


def _wandb(tracking: Any, step: int, answers: Sequence[ShownAnswer]) -> None:
    table = data_table(importlib.import_module("wandb"), answers)
    tracking.log({ANSWERS: table}, step, ["wandb"])


def _trackio(tracking: Any, step: int, answers: Sequence[ShownAnswer]) -> None:
    if told := traces(importlib.import_module("trackio"), answers):
        tracking.log({ANSWERS: told}, step, ["trackio"])


def _tensorboard(tracking: Any, step: int, answers: Sequence[ShownAnswer]) -> None:
    summary: Any = importlib.import_module("tensorboard.compat.proto.summary_pb2").Summary
    writer = tracking.logger["tensorboard"].writer.file_writer
    writer.add_summary(summary(value=[text_table(answers)]), step)


SENDERS: dict[str, Callable[[Any, int, Sequence[ShownAnswer]], None]] = {
    "wandb": _wandb,
    "trackio": _trackio,
    "tensorboard": _tensorboard,
}
