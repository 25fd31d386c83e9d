"""Words of engine.overrides that are about one start, or about memory, and not about the run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metis.core import state
from metis.engines.verl.launch import retention
from metis.engines.verl.launch.resumable import STATE
from metis.run import manifest

MODE, PLACE, ONLY_TESTED = "trainer.resume_mode", "trainer.resume_from_path", "trainer.val_only"
OF_A_START = (MODE, PLACE, ONLY_TESTED)
OFFLOADED = "_offload"
"""The end of the keys that keep weights or an optimizer in the memory of the machine."""


def settings(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run without those of this start, which the next one does not repeat."""
    engine = resolved["engine"]
    words = [word for word in engine["overrides"] if _key(word) not in OF_A_START]
    return {**resolved, "engine": {**engine, "overrides": words}}


def same_run(before: Sequence[str], now: Sequence[str]) -> bool:
    """True of overrides that are equal but for words that a resumed run may change."""
    return _of_the_run(before) == _of_the_run(now)


def step(overrides: Sequence[str], folder: Path) -> int:
    """The step that this start goes on from, with these checkpoints."""
    mode = _value(overrides, MODE) or "auto"
    if mode == "auto":
        return retention.marked(folder) or 0
    place = Path(_value(overrides, PLACE) or "").absolute()
    if mode == "disable" or not place.is_dir():
        return 0
    if retention.is_best(place.name):
        return int(state.load(place / STATE)["best"][0])
    return retention.step_of(place) if retention.NUMBERED.fullmatch(place.name) else 0


def goes_on(overrides: Sequence[str]) -> bool:
    """True of a start that trains on from the latest checkpoint."""
    tested = (_value(overrides, ONLY_TESTED) or "false").lower() in ("true", "yes", "on", "1")
    return (_value(overrides, MODE) or "auto") == "auto" and not tested


def reason_to_begin_anew(overrides: Sequence[str]) -> str:
    """The reason of a start at step 0 in the folder of a run."""
    asked = _value(overrides, MODE) == "disable"
    return f"{MODE} is 'disable'" if asked else manifest.NO_CHECKPOINT


def _of_the_run(overrides: Sequence[str]) -> list[str]:
    keys = ((word, _key(word)) for word in overrides)
    return [word for word, key in keys if key not in OF_A_START and not key.endswith(OFFLOADED)]


def _key(word: str) -> str:
    return word.partition("=")[0].strip().lstrip("+~")


def _value(overrides: Sequence[str], key: str) -> str | None:
    """The value of a key, as Hydra takes it: the last one, with or without quotation marks."""
    values = [word.partition("=")[2] for word in overrides if _key(word) == key]
    return values[-1].strip().strip("'\"") if values else None
