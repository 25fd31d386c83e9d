"""A checkpoint as a Hugging Face folder that needs nothing else: LoRA merged, a card beside it."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from metis import files
from metis.engines import model_files
from metis.errors import MetisError, first_line, pip_install
from metis.export.card import card
from metis.files import require_new_folder, writing
from metis.run import manifest, models
from metis.run.models import Checkpoint

DTYPES = ("float32", "bfloat16", "float16")
SETTINGS = "metis_run.json"
"""The run's settings, which `metis train` takes as a recipe."""

_OURS = {"run.state", "engine.state", "optimizer.pt"}


@dataclass(frozen=True)
class Parts:
    """Paths of a model: its weights, adapters to merge into them, and its tokenizer."""

    weights: Path
    adapter: Path | None
    tokenizer: Path


def export(
    run: Path,
    target: Path,
    checkpoint: str = "",
    dtype: str = "",
    adapter: bool = False,
    say: Callable[[str], None] = print,
) -> Checkpoint:
    """Write the checkpoint of a run to a folder that is not there yet, whole or not at all."""
    trained = models.find_checkpoint(run.expanduser(), checkpoint)
    if trained is None:
        raise MetisError(f"{str(run)!r} is no run folder: name the --out of a `metis train`")
    target = target.expanduser()
    _check(trained, target, dtype, adapter)
    say(f"{trained.run}, {trained} → {target}")
    with (
        writing(target),
        files.atomic_folder(target.resolve()) as draft,
        tempfile.TemporaryDirectory(dir=draft) as work,
    ):
        if adapter:
            _copy(trained.path, draft)
        else:
            _write(_parts(trained, Path(work), say), draft, dtype)
        _describe(trained, draft, adapter)
        files.same_access(draft, SETTINGS)
    return trained


def _check(checkpoint: Checkpoint, target: Path, dtype: str, adapter: bool) -> None:
    require_new_folder(target)
    if dtype and dtype not in DTYPES:
        raise MetisError(f"--dtype {dtype}: use one of {', '.join(DTYPES)}")
    if adapter and not (checkpoint.adapter and checkpoint.engine == "local"):
        why = "of runs on verl only whole models are exported"
        if checkpoint.engine == "local":
            why = f"{str(checkpoint.run)!r} was trained without LoRA (engine.lora = 0)"
        raise MetisError(f"--adapter: {why}: leave it out")
    if adapter and dtype:
        raise MetisError(f"--dtype {dtype}: adapters stay as they were trained: leave it out")
    if find_spec("transformers") is None:
        raise MetisError(f"metis export needs transformers: {pip_install('local')}")


def _parts(checkpoint: Checkpoint, work: Path, say: Callable[[str], None]) -> Parts:
    if checkpoint.loadable:
        return Parts(checkpoint.model, None, checkpoint.model)
    if checkpoint.engine == "local":
        if not checkpoint.adapter:
            raise MetisError(
                f"{str(checkpoint.path)!r} is incomplete, or of an earlier version: export another "
                "checkpoint (--checkpoint)"
            )
        with _reading(checkpoint.path / "adapter_config.json") as file:
            about = json.load(file)
        return Parts(
            model_files.model(about["base_model_name_or_path"], say),
            checkpoint.path,
            checkpoint.path,
        )
    merged = _merged_by_verl(checkpoint.path / "actor", work, say)
    adapter = merged / "lora_adapter"
    return Parts(merged, adapter if adapter.is_dir() else None, merged)


def _merged_by_verl(actor: Path, target: Path, say: Callable[[str], None]) -> Path:
    """The shards of FSDP's ranks, put together (in bfloat16) by verl's own program."""
    if find_spec("verl") is None:
        raise MetisError(
            f"{str(actor)!r} is for verl's merger, and verl is not installed here: run `metis "
            "export` in the environment that the run was trained in"
        )
    say("verl merges what its ranks have saved")
    command = [sys.executable, "-m", "verl.model_merger", "merge", "--backend", "fsdp"]
    command += ["--local_dir", str(actor), "--target_dir", str(target)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        said = [line.strip() for line in run.stderr.splitlines() if line.strip()] or ["no reason"]
        raise MetisError(
            f"verl could not merge {str(actor)!r} ({said[-1]}): it is incomplete, or of another "
            "version of verl; `python -m verl.model_merger merge --help` says what it takes"
        )
    return target


def _write(parts: Parts, draft: Path, dtype: str) -> None:
    """The model, in another precision if asked for; weights that stay as they are are copied."""
    if parts.adapter is None and not dtype:
        _copy(parts.weights, draft)
        return
    _network(parts, dtype).save_pretrained(draft)
    written = {path.name for path in draft.iterdir()} - {"generation_config.json"}
    kept = {path.name for path in parts.tokenizer.iterdir() if ".safetensors" in path.name}
    _copy(parts.tokenizer, draft, written | kept | {"adapter_config.json", "config.json"})


def _network(parts: Parts, dtype: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    quiet: Any = logging
    quiet.disable_progress_bar()
    quiet.set_verbosity_error()
    try:
        network: Any = AutoModelForCausalLM.from_pretrained(parts.weights, dtype=torch.float32)
        if parts.adapter is not None:  # merged in float32, and only then rounded
            from peft import PeftModel

            network = PeftModel.from_pretrained(network, parts.adapter).merge_and_unload()
    except ImportError as error:
        raise MetisError(f"{error}: {pip_install('local')}") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise MetisError(
            f"{str(parts.weights)!r} cannot be loaded ({first_line(error)}): it is incomplete, or "
            "not the model that the run began with"
        ) from None
    return network.to(getattr(torch, dtype or "float32"))


def _copy(source: Path, draft: Path, left_out: Iterable[str] = ()) -> None:
    """The files of a model; not those that training goes on from."""
    for path in source.iterdir():
        ours = path.name in _OURS or path.name.startswith("learner-")
        if path.is_file() and not ours and path.name not in left_out:
            with _reading(path) as whole, (draft / path.name).open("wb") as copy:
                shutil.copyfileobj(whole, copy, 1 << 20)


def _reading(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise MetisError(
            f"{str(path)!r} cannot be read ({error.strerror}): mend that, or export another "
            "checkpoint (--checkpoint)"
        ) from None


def _describe(checkpoint: Checkpoint, draft: Path, adapter: bool) -> None:
    settings = json.dumps(manifest.settings_of(checkpoint.config), indent=2)
    (draft / SETTINGS).write_text(f"{settings}\n", "utf-8")
    (draft / "README.md").write_text(card(checkpoint, SETTINGS, adapter), "utf-8")
