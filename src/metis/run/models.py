"""Finds the checkpoints of a run and their model files.

A checkpoint of the local engine is a Hugging Face folder, with LoRA a PEFT adapter; a verl
checkpoint contains such a folder.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metis.core import state
from metis.errors import MetisError
from metis.run import folder as run_folder
from metis.run.manifest import current


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of a run: best, last or a step."""

    run: Path
    config: dict[str, Any]
    """The settings of the run."""
    name: str
    step: int
    path: Path

    @property
    def engine(self) -> str:
        return str(self.config["engine"]["name"])

    @property
    def model(self) -> Path:
        """The folder with model config, tokenizer and weights."""
        return self.path / "actor/huggingface" if self.engine == "verl" else self.path

    @property
    def adapter(self) -> bool:
        """True for LoRA adapters without the base model."""
        return self.peft or (self.path / "actor/lora_train_meta.json").is_file()

    @property
    def peft(self) -> bool:
        """True for adapters in PEFT format."""
        return (self.path / "adapter_config.json").is_file()

    @property
    def loadable(self) -> bool:
        """True if `from_pretrained` loads the folder by itself."""
        whole = (self.model / "config.json").is_file() and any(self.model.glob("*.safetensors"))
        return whole and not self.adapter

    def ready(self) -> Path:
        """The model folder; refused if it has to be exported first."""
        if self.loadable:
            return self.model
        what = (
            "has only LoRA adapters" if self.adapter else "has no weights that transformers reads"
        )
        raise MetisError(
            f"{str(self.path)!r} {what}: make a model of it with `metis export {self.run} DIR "
            f"--checkpoint {self.name}`, and name that folder"
        )

    def __str__(self) -> str:
        return f"{self.name} checkpoint, step {self.step}" if self.kept else f"step {self.step}"

    @property
    def kept(self) -> bool:
        return self.name in ("best", "last")


def run_settings(folder: Path) -> dict[str, Any] | None:
    """The settings of a run, or None for a folder of anything else."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return None
    is_run = isinstance(config, dict) and {"engine", "curriculum"} <= set(config)
    return current(config) if is_run else None


def find_checkpoint(path: Path, name: str = "") -> Checkpoint | None:
    """The checkpoint at the path of a run or of a checkpoint; None for any other path.

    `name` is best, last or a step; without one it is the best, or else the last.
    """
    if (config := run_settings(path)) is not None:
        return _find(path, config, name)
    whole = path.absolute()
    run = whole.parent.parent
    config = run_settings(run) if whole.parent.name == "checkpoints" else None
    if config is None or not (whole / "run.state").is_file():
        return None
    step = _step(whole)
    return Checkpoint(run, config, "best" if whole.name == "best" else str(step), step, path)


def _find(run: Path, config: dict[str, Any], name: str) -> Checkpoint:
    engine = config["engine"].get("name")
    if engine not in _LISTED:
        raise MetisError(
            f"run {str(run)!r} is of the {engine} engine, which has no model: name a run of "
            "another engine, or a model"
        )
    there = _LISTED[engine](run)
    steps = {key: entry for key, entry in there.items() if key != "best"}
    last = max(steps.values(), key=lambda entry: entry[0], default=None)
    if name in ("", "best") and "best" in there:
        return Checkpoint(run, config, "best", *there["best"])
    if name in ("", "last") and last:
        return Checkpoint(run, config, "last", *last)
    if name.isdecimal():
        for step, path in there.values():
            if step == int(name):
                return Checkpoint(run, config, name, step, path)
    raise _missing(run, config, name, there)


def _local(run: Path) -> dict[str, tuple[int, Path]]:
    checkpoints = {path.name: (step, path) for step, path in run_folder.checkpoints(run)}
    if (best := run / "checkpoints/best").is_dir():
        checkpoints["best"] = _step(best), best
    return checkpoints


def _verl(run: Path) -> dict[str, tuple[int, Path]]:
    """verl's checkpoints: in `verl`, or beside the logs if verl was started directly."""
    home = run / "verl" if (run / "verl").is_dir() else run.parent
    marker = home / "latest_checkpointed_iteration.txt"
    latest = int(marker.read_text()) if marker.exists() else 0
    checkpoints = {}
    for path in home.glob("global_step_*"):
        number = path.name.removeprefix("global_step_")
        if number.isdecimal() and int(number) <= latest:  # later ones may be incomplete
            checkpoints[path.name] = int(number), path
    if (best := home / "best").is_dir():
        checkpoints["best"] = int(state.load_state(best / "metis.state")["best"][0]), best
    return checkpoints


_LISTED = {"local": _local, "verl": _verl}


def _step(checkpoint: Path) -> int:
    return int(state.load_state(checkpoint / "run.state")["step"])


def _missing(
    run: Path, config: dict[str, Any], name: str, there: dict[str, tuple[int, Path]]
) -> MetisError:
    itself = f"its initial model, {config['engine'].get('model', 'by name')}"
    if not there:
        return MetisError(f"run {str(run)!r} has no checkpoint yet: train it, or name {itself}")
    if name == "best":
        return MetisError(
            f"run {str(run)!r} has no best checkpoint, since no validation beat the initial model: "
            f"use --checkpoint last, or name {itself}"
        )
    steps = sorted({step for step, _ in there.values()})
    return MetisError(
        f"run {str(run)!r} has no checkpoint {name!r}: use best, last or a step that was kept, "
        f"{', '.join(map(str, steps))}"
    )
