"""The optional packages: installed or not, and of a version that METIS supports."""

import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

import metis
from metis.doctor.finding import Finding, ok
from metis.errors import pip_install

USES = {
    "torch": ("local", "training on this machine, engine=local"),
    "transformers": ("local", "training on this machine, engine=local"),
    "peft": ("local", "LoRA, engine.lora"),
    "vllm": ("vllm", "fast rollouts on a GPU, engine.generation=vllm"),
    "verl": ("verl", "several GPUs, engine=verl"),
    "trl": ("trl", "prompts for TRL's trainers, metis.trl"),
    "math-verify": ("math", "answers of task=math that the exact check leaves open"),
    "reasoning-gym": ("gym", "task=gym"),
    "huggingface-hub": ("math", "models and data sets from the Hugging Face hub"),
    "pyarrow": ("math", "parquet files, metis prepare"),
    "mpmath": ("bfcl", "task=bfcl"),
}
"""Packages with the extra that brings them and what they are for."""

DISTRIBUTION = "metis-rft"
"""The name under which METIS itself is installed."""


def findings() -> Iterator[Finding]:
    """METIS itself, the packages it always needs, and those of its extras."""
    yield ok("METIS", f"{metis.__version__}, {Path(metis.__file__).parent}")
    ranges = requirements()
    for name in USES:
        yield package(name, ranges[name])


def package(name: str, supported: Requirement) -> Finding:
    """An optional package: its version, checked against the supported range."""
    extra, use = USES[name]
    command = pip_install(extra)
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, "absent", "not installed", use, command)
    if supported.specifier.contains(version, prereleases=True):
        return ok(name, version)
    wanted = f"{version}, but METIS supports {name}{supported.specifier}"
    return Finding(name, "broken", wanted, use, command)


def requirements() -> dict[str, Requirement]:
    """What METIS requires, by the name of the package, its extras included."""
    parsed = map(Requirement, _declared())
    return {each.name: each for each in parsed if each.name != DISTRIBUTION}


def _declared() -> list[str]:
    """From the installed package; from the checkout, where METIS is only on the path."""
    try:
        return metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        file = Path(__file__).parents[3] / "pyproject.toml"
        project = tomllib.loads(file.read_text())["project"]
        extras = project["optional-dependencies"].values()
        return [*project["dependencies"], *(one for extra in extras for one in extra)]


def python() -> Finding:
    """The interpreter that runs this command; METIS does not start on one that is too old."""
    version = ".".join(map(str, sys.version_info[:3]))
    return ok("Python", f"{version}, {sys.executable}")
