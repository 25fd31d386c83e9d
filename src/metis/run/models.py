"""The models that a run leaves behind: which checkpoint is meant, and where its files are.

A checkpoint of the local engine is a Hugging Face folder, of a run with LoRA a PEFT adapter; verl
has such a folder in each of its own.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metis.core import state
from metis.errors import MetisError
from metis.run import folder as run_folder


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of a run, called best, last or by its step."""

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
        """The folder with the model's configuration, its tokenizer and its weights."""
        return self.path / "actor/huggingface" if self.engine == "verl" else self.path

    @property
    def adapter(self) -> bool:
        """Adapters (LoRA) of a model that is elsewhere."""
        return self.peft or (self.path / "actor/lora_train_meta.json").is_file()

    @property
    def peft(self) -> bool:
        """Adapters in PEFT's own form."""
        return (self.path / "adapter_config.json").is_file()

    @property
    def loadable(self) -> bool:
        """True where transformers loads the folder without another model."""
        whole = (self.model / "config.json").is_file() and any(self.model.glob("*.safetensors"))
        return whole and not self.adapter

    def ready(self) -> Path:
        """The folder of the model; what has to be exported first is refused."""
        if self.loadable:
            return self.model
        what = "holds adapters (LoRA)" if self.adapter else "has no weights that transformers reads"
        raise MetisError(
            f"{str(self.path)!r} {what}: make a model of it with `metis export {self.run} DIR "
            f"--checkpoint {self.name}`, and name that folder"
        )

    def __str__(self) -> str:
        return f"{self.name} checkpoint, step {self.step}" if self.kept else f"step {self.step}"

    @property
    def kept(self) -> bool:
        return self.name in ("best", "last")


def settings(folder: Path) -> dict[str, Any] | None:
    """The settings of a run; None where the folder is no run's."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return None
    is_run = isinstance(config, dict) and {"engine", "curriculum"} <= set(config)
    return config if is_run else None


def named(path: Path, name: str = "") -> Checkpoint | None:
    """The checkpoint that the path of a run, or of a checkpoint, means; None of any other.

    The name of a run's checkpoint is best, last or a step; none is the best, or else the last.
    """
    if (config := settings(path)) is not None:
        return _find(path, config, name)
    whole = path.absolute()
    run = whole.parent.parent
    config = settings(run) if whole.parent.name == "checkpoints" else None
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
    """verl's checkpoints are in `verl`, or beside the logs where verl was started by itself."""
    home = run / "verl" if (run / "verl").is_dir() else run.parent
    marker = home / "latest_checkpointed_iteration.txt"
    latest = int(marker.read_text()) if marker.exists() else 0
    checkpoints = {}
    for path in home.glob("global_step_*"):
        number = path.name.removeprefix("global_step_")
        if number.isdecimal() and int(number) <= latest:  # later ones were not written to the end
            checkpoints[path.name] = int(number), path
    if (best := home / "best").is_dir():
        checkpoints["best"] = int(state.load(best / "metis.state")["best"][0]), best
    return checkpoints


_LISTED = {"local": _local, "verl": _verl}


def _step(checkpoint: Path) -> int:
    return int(state.load(checkpoint / "run.state")["step"])


def _missing(
    run: Path, config: dict[str, Any], name: str, there: dict[str, tuple[int, Path]]
) -> MetisError:
    itself = f"the model it began with, {config['engine'].get('model', 'by its name')}"
    if not there:
        return MetisError(f"run {str(run)!r} has no checkpoint yet: train it, or name {itself}")
    if name == "best":
        return MetisError(
            f"run {str(run)!r} has no best checkpoint, since no step tested better than the model "
            f"it began with: use --checkpoint last, or name {itself}"
        )
    steps = sorted({step for step, _ in there.values()})
    return MetisError(
        f"run {str(run)!r} has no checkpoint {name!r}: use best, last or a step that was kept, "
        f"{', '.join(map(str, steps))}"
    )
