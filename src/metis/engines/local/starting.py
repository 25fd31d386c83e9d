"""Messages about slow parts of the start, with the usual time."""

from pathlib import Path

from metis.engines.local.settings import LocalSettings

BASE, EACH = 2.0, 2.0
"""Estimate: seconds to load a model, and seconds per GB of weights, from a fast disk."""

EAGER, WITH_GRAPHS = 45.0, 90.0
"""Estimate: seconds to start vLLM, without CUDA graphs and with them."""


def loading(model: str, folder: Path) -> str:
    """The line before a model is loaded."""
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors")) / 1e9
    usual = _about(BASE + EACH * size)
    return f"loading {model} ({size:.1f} GB): usually {usual}, more from a slow disk"


def vllm_starts_in(settings: LocalSettings) -> float:
    """Seconds that vLLM usually takes to start."""
    return EAGER if settings.vllm_eager else WITH_GRAPHS


def starting_vllm(settings: LocalSettings) -> str:
    """The line before vLLM starts."""
    if settings.vllm_eager:
        return "starting vLLM: usually under a minute"
    return "starting vLLM: usually one to two minutes; engine.vllm_eager=true starts sooner"


def compiling() -> str:
    """The line before layers are compiled, in the first steps."""
    return (
        "engine.compile=true: layers are compiled in the first steps, usually 6 to 50 s for each "
        "kind of forward pass, so these steps are slow"
    )


def _about(seconds: float) -> str:
    if seconds < 10:
        return "a few seconds"
    if seconds < 90:
        return f"about {round(seconds, -1):.0f} s"
    return f"about {seconds / 60:.0f} minutes"
