"""The machine: processors, memory, GPU, sandbox, Chromium, disk and the Hugging Face hub."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from metis.doctor.finding import Finding, ok
from metis.errors import MetisError, first_line, pip_install
from metis.tasks.code import bubblewrap, sandbox

GB = 1e9

LEAST_DISK = 5 * GB
"""A checkpoint of a small model with its optimizer takes a few of these; below, runs end early."""

PATIENCE = 5.0
"""Seconds to wait for the hub."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def processors() -> Finding:
    """Cores this process may use, and the machine's memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return ok("CPU", f"{cores} cores, {memory / GB:.0f} GB of memory")


def gpu() -> Finding:
    """The GPUs that torch sees; broken where the machine has one that torch does not see."""
    use, driver = "models of more than a few hundred million parameters", shutil.which("nvidia-smi")
    if find_spec("torch") is None:
        found = "torch is not installed, so none was looked for"
        return Finding("GPU", "absent", found, use, pip_install("local"))
    import torch

    if torch.cuda.is_available():
        parts = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
        return ok("GPU", ", ".join(f"{it.name} ({it.total_memory / GB:.0f} GB)" for it in parts))
    if driver is None:
        return Finding("GPU", "absent", "none; the CPU trains", use)
    if torch.version.cuda is None:
        found = f"there is a driver, but torch {torch.__version__} was built without CUDA"
        return Finding("GPU", "broken", found, use, "pip install --force-reinstall torch")
    found = f"there is a driver, but CUDA {torch.version.cuda} of torch does not start with it"
    return Finding("GPU", "broken", found, use, "nvidia-smi")


def programs() -> Finding:
    """The sandbox of model-written programs, tried with one."""
    use = "task=code, and rewards that run programs"
    try:
        bubblewrap.executable()
    except MetisError:
        return Finding("sandbox", "absent", "no bubblewrap", use, bubblewrap.install_command())
    try:
        sandbox.ready()
    except MetisError as error:
        return Finding("sandbox", "broken", first_line(error), use)
    return ok("sandbox", "bubblewrap; a program ran, and its limits hold")


def browser() -> Finding:
    """A browser for METIS's own tests; users' pages open in their own."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is not None:
        return ok("Chromium", found)
    remedy = bubblewrap.install_command("chromium")
    return Finding("Chromium", "absent", "none", "METIS's own browser tests", remedy)


def disk() -> Finding:
    """Space for runs, where this command was started."""
    here = Path.cwd()
    free = shutil.disk_usage(here).free
    found = f"{free / GB:.0f} GB free in {here}"
    if free >= LEAST_DISK:
        return ok("disk", found)
    use = "run folders and checkpoints"
    return Finding("disk", "broken", found, use, "free some, or write elsewhere: --out FOLDER")


def hub() -> Finding:
    """The Hugging Face hub, asked once."""
    use = "models by hub id, metis prepare; folders and METIS's own models do without"
    if find_spec("huggingface_hub") is None:
        return Finding(
            "hub", "absent", "huggingface-hub is not installed", use, pip_install("math")
        )
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        found = "switched off by HF_HUB_OFFLINE; what is in the cache is used"
        return Finding("hub", "absent", found, use, "unset HF_HUB_OFFLINE")
    try:
        get_session().head(constants.ENDPOINT, timeout=PATIENCE)
    except Exception as error:  # its HTTP client's errors share no base with ours
        found = f"{constants.ENDPOINT} cannot be reached ({type(error).__name__})"
        return Finding("hub", "absent", found, use, "set HF_ENDPOINT to a mirror, or a proxy")
    return ok("hub", constants.ENDPOINT)
