"""The subject of an evaluation: a model, or a checkpoint of a run."""

import dataclasses
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from metis.engines import model_files
from metis.engines.local.settings import LocalSettings
from metis.run import models
from metis.run.manifest import settings_of
from metis.tasks.benchmarks.catalogue import PAPER

TOKENS = {"cpu": 0, "gpu": 1 << 17, "vllm": 0}
"""Tokens held at once, where answers have full length; vLLM sees to its memory itself."""
LONGEST = {"cpu": 128, "gpu": 8192, "vllm": 8192}
"""Tokens of an answer where nothing says otherwise: the paper's, and on a CPU enough to try."""

PAPER_TASK = {"name": "math", "verify": PAPER.verify}
"""The task of the paper's tables."""


@dataclass(frozen=True)
class EvaluatedModel:
    """A model or a checkpoint to evaluate, with the settings of its run.

    about tells it from every other subject. A model has no run, and is asked and scored as in the
    paper.
    """

    name: str
    engine: LocalSettings
    about: dict[str, Any]
    checkpoint: Path | None = None
    run: Path | None = None
    settings: dict[str, Any] = field(default_factory=lambda: {"task": dict(PAPER_TASK)})

    @property
    def max_tokens(self) -> int | None:
        """Longest answer in the run."""
        return None if self.run is None else self.engine.max_tokens

    def on(
        self,
        *,
        device: str | None = None,
        generation: str | None = None,
        vllm_cache: float | None = None,
    ) -> "EvaluatedModel":
        """The subject with other device or memory settings."""
        given = {"device": device, "generation": generation, "vllm_cache": vllm_cache}
        changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        changes["vllm_sleep"] = False
        return dataclasses.replace(self, engine=dataclasses.replace(self.engine, **changes))


def find(named: str, checkpoint: str = "") -> EvaluatedModel:
    """Resolve a name on the command line to a model or a checkpoint of a run."""
    trained = models.find_checkpoint(Path(named).expanduser(), checkpoint)
    if trained is None:
        name, model = _called(named), model_files.model(named)
        facts = {"name": name, "model": name, "weights": identity(model)}
        return EvaluatedModel(
            name, LocalSettings(model=str(model), generation="transformers"), facts
        )
    config, step = trained.config, trained.step
    knobs = {knob.name for knob in fields(LocalSettings)}
    settings = {key: value for key, value in config["engine"].items() if key in knobs}
    settings["generation"] = "vllm" if settings.get("generation") == "vllm" else "transformers"
    weights = trained.path if trained.peft else None
    if weights is None:
        settings |= {"model": str(trained.ready()), "lora": 0}
    engine = LocalSettings(**settings)
    called = f"{trained.name}, step {step}" if trained.kept else f"step {step}"
    name = f"{trained.run.resolve().name} ({called})"
    model = model_files.model(engine.model)
    about: dict[str, Any] = {
        "name": name,
        "model": _called(str(config["engine"].get("model", engine.model))),
        "checkpoint": trained.name,
        "step": step,
        "weights": identity(model, weights),
    }
    engine = dataclasses.replace(engine, model=str(model))
    return EvaluatedModel(name, engine, about, weights, trained.run, settings_of(config))


def _called(model: str) -> str:
    """The display name of a model; of a folder or a file, without its path."""
    path = Path(model).expanduser()
    return path.resolve().name if path.exists() else model


PIECE = 1 << 16
PIECES = 64
SUFFIXES = (".safetensors", ".bin", ".json", ".model", ".txt", ".jinja")
"""Of the files of a model: its weights, its settings and its tokenizer."""


def identity(model: Path, checkpoint: Path | None = None) -> str:
    """A digest of a model's weights, with a checkpoint's adapters; of a hub model, its revision."""
    if checkpoint is not None:
        return _short([identity(model), digest([checkpoint / "adapter_model.safetensors"])])
    if model.parent.name == "snapshots" and re.fullmatch("[0-9a-f]{40}", model.name):
        return model.name
    return digest(path for path in model.iterdir() if path.suffix in SUFFIXES)


def digest(files: Iterable[Path]) -> str:
    """A digest of files that changes when one is replaced, and not with the folder they are in.

    Of a large file, its size and pieces spread over it are read, a few megabytes: enough to tell
    apart what training or another download makes of it.
    """
    return _short(part for path in sorted(files) for part in (path.name, _content(path)))


def _content(path: Path) -> str:
    seen = hashlib.sha256()
    with path.open("rb") as file:
        size = path.stat().st_size
        step = max(PIECE, (size - PIECE) // (PIECES - 1))
        for start in (*range(0, size, step), max(0, size - PIECE)):
            file.seek(start)
            seen.update(file.read(PIECE))
    return f"{size} {seen.hexdigest()}"


def _short(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
