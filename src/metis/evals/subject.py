"""Who is evaluated: a model, or what a training run made of it."""

import dataclasses
import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from metis import assets, runlog, state
from metis.engines.local.settings import Local
from metis.errors import MetisError
from metis.evals.weights import identity
from metis.identity import settings as settings_of

BATCHES = {"cpu": (32, 0), "gpu": (128, 1 << 17), "vllm": (512, 0)}
"""Rows and tokens generated at once; vLLM sees to its memory itself."""
LONGEST = {"cpu": 128, "gpu": 8192, "vllm": 8192}
"""Tokens of an answer where nothing says otherwise: the paper's, and on a CPU enough to try."""

PAPER = {"name": "math", "verify": False}
"""The task of the paper's tables."""


@dataclass(frozen=True)
class Subject:
    """A model with the weights that a checkpoint holds, and the settings of its run.

    about tells it from every other subject. A model has no run, and is asked and scored as in the
    paper.
    """

    name: str
    engine: Local
    about: dict[str, Any]
    checkpoint: Path | None = None
    run: Path | None = None
    settings: dict[str, Any] = field(default_factory=lambda: {"task": dict(PAPER)})

    @property
    def max_tokens(self) -> int | None:
        """Longest answer in the run."""
        return None if self.run is None else self.engine.max_tokens

    def on(self, device: str | None, generation: str | None) -> "Subject":
        """The same elsewhere."""
        given = {"device": device, "generation": generation, "vllm_sleep": False}
        changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        return dataclasses.replace(self, engine=dataclasses.replace(self.engine, **changes))


def find(named: str, checkpoint: str) -> Subject:
    """The model, or the checkpoint of a run, that a name on the command line means."""
    folder = Path(named).expanduser()
    config = _run_config(folder)
    if config is None:
        name, model = _called(named), assets.model(named)
        known = {"name": name, "model": name, "weights": identity(model)}
        return Subject(name, Local(model=str(model)), known)
    trained = _FINDERS[config["engine"]["name"]](folder, checkpoint, config)
    step, weights = trained.step, trained.checkpoint
    knobs = {knob.name for knob in fields(Local)}
    settings = {key: value for key, value in config["engine"].items() if key in knobs}
    engine = Local(**(settings | trained.engine))
    name = f"{folder.resolve().name} ({checkpoint}, step {step})"
    model = assets.model(engine.model)
    about: dict[str, Any] = {
        "name": name,
        "model": _called(str(config["engine"].get("model", engine.model))),
        "checkpoint": checkpoint,
        "step": step,
        "weights": identity(model, weights),
    }
    engine = dataclasses.replace(engine, model=str(model))
    return Subject(name, engine, about, weights, folder, settings_of(config))


def _called(model: str) -> str:
    """The name of a model: of a folder or a file its own, without the way to it."""
    path = Path(model).expanduser()
    return path.resolve().name if path.exists() else model


def _run_config(folder: Path) -> dict[str, Any] | None:
    """The settings of a run; None where the folder is no run's."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return None
    is_run = isinstance(config, dict) and {"engine", "curriculum"} <= set(config)
    if is_run and config["engine"].get("name") not in _FINDERS:
        raise MetisError(
            f"run {str(folder)!r} is of the {config['engine'].get('name')} engine, which has no "
            "model to evaluate: name a run of another engine, or a model"
        )
    return config if is_run else None


@dataclass(frozen=True)
class _Trained:
    """What a run made of its model at a step: a checkpoint of the local engine, or a model."""

    step: int
    checkpoint: Path | None = None
    engine: dict[str, Any] = field(default_factory=dict)
    """What replaces settings of the run."""


def _local(folder: Path, checkpoint: str, config: dict[str, Any]) -> _Trained:
    finished = runlog.checkpoints(folder)
    path = folder / "checkpoints/best" if checkpoint == "best" else None
    if checkpoint == "last" and finished:
        path = finished[-1][1]
    if path is None or not path.is_dir():
        raise _nothing(folder, checkpoint, config, bool(finished))
    return _Trained(int(state.load(path / "run.state")["step"]), path)


def _verl(folder: Path, checkpoint: str, config: dict[str, Any]) -> _Trained:
    """verl's checkpoints are in `verl`, or beside the logs where verl was started by itself."""
    home = folder / "verl" if (folder / "verl").is_dir() else folder.parent
    marker = home / "latest_checkpointed_iteration.txt"
    latest = int(marker.read_text()) if marker.exists() else 0
    path = home / ("best" if checkpoint == "best" else f"global_step_{latest}")
    if not path.is_dir():
        raise _nothing(folder, checkpoint, config, latest > 0)
    if (path / "actor" / "lora_train_meta.json").exists():
        raise MetisError(
            f"{str(path)!r} holds adapters (LoRA) beside the weights they belong to: put them "
            "together with `python -m verl.model_merger` and peft, and name the folder of that"
        )
    model = path / "actor" / "huggingface"
    if not any(model.glob("*.safetensors")):
        raise MetisError(
            f"{str(path)!r} has no weights that transformers reads: train with "
            "actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model], or "
            "make them with `python -m verl.model_merger` and name that folder"
        )
    step = state.load(path / "metis.state")["best"][0] if checkpoint == "best" else latest
    backend = "vllm" if config["engine"].get("generation") == "vllm" else "transformers"
    return _Trained(step, engine={"model": str(model), "lora": 0, "generation": backend})


_FINDERS = {"local": _local, "verl": _verl}


def _nothing(folder: Path, checkpoint: str, config: dict[str, Any], finished: bool) -> MetisError:
    remedy = f"evaluate the model itself, {config['engine'].get('model', 'by its name')}"
    if finished and checkpoint == "best":
        remedy = (
            "no step tested better than the model it began with: use --checkpoint last, or "
            f"{remedy}"
        )
    return MetisError(f"run {str(folder)!r} has no {checkpoint} checkpoint: {remedy}")
