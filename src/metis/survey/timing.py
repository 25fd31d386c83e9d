"""Seconds of a step of METIS by phase, measured once: judging, rollouts, rewards, update."""

import json
from pathlib import Path

from metis import files
from metis.config import Config, curriculum_of
from metis.core import Curriculum, Progress
from metis.core.drive import drive
from metis.core.pool import Pool
from metis.loop import Trainable
from metis.run.meter import Meter

STEPS = 2
"""Of which the first warms up."""

FILE = "step_seconds.json"


def judging(settings: Config) -> Curriculum:
    """METIS as it is set, or with its defaults where another curriculum is."""
    if settings.curriculum_name == "metis":
        return settings.curriculum
    return curriculum_of("metis", settings.training.batch, settings.training.group)


def step_seconds(
    engine: Trainable, pool: Pool, curriculum: Curriculum, folder: Path
) -> dict[str, float]:
    """The phases of the second of two steps, which train the policy; measured before, as then."""
    path = folder / FILE
    if path.exists():
        measured: dict[str, float] = json.loads(path.read_text("utf-8"))
        return measured
    seconds: dict[str, float] = {}
    for step in range(STEPS):
        meter = Meter(engine)
        planned = drive(curriculum.step(pool, Progress(step, policy=step)), meter)
        if planned.groups:
            with meter.phase("update"):
                engine.update(planned)
        seconds = meter.seconds
    with files.atomic(path) as file:
        file.write(json.dumps(seconds).encode())
    return seconds
