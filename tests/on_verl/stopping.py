"""Holds the second worker of a run in the middle of something, until its node is taken away.

METIS_TESTS_STOP names a method of verl's worker, which of its calls it is, and a file that tells of
it. Imported in every process by VERL_USE_EXTERNAL_MODULES.
"""

import functools
import os
import threading
from itertools import count
from pathlib import Path

STOP = "METIS_TESTS_STOP"


def hold(name: str, call: int, told: Path) -> None:
    from verl.workers.engine_workers import TrainingWorker

    method, calls = getattr(TrainingWorker, name), count(1)

    @functools.wraps(method)
    def held(*given, **named):
        if next(calls) == call:
            told.touch()
            threading.Event().wait()
        return method(*given, **named)

    setattr(TrainingWorker, name, held)


if STOP in os.environ and os.environ.get("RANK") == "1":
    name, call, told = os.environ[STOP].split()
    hold(name, int(call), Path(told))
