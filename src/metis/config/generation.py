"""The generator of rollouts that `engine.generation=auto` resolves to.

vLLM takes one to two minutes to start. It is chosen on a GPU where it is installed, fits, and saves
more than that, by the estimate of a step and the run's budget. A resumed run keeps what it had.
The estimate takes the work of a step from the settings and the length of some prompts.
"""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from metis.config.config import Config
from metis.core import Embed, state
from metis.core.needs import needs_of
from metis.curricula.registry import candidates
from metis.engines import model_files
from metis.engines.local.estimate import step as estimate
from metis.engines.local.estimate.shape import ModelShape
from metis.engines.local.estimate.step import Device, StepSize
from metis.engines.local.settings import LocalSettings
from metis.engines.local.starting import vllm_starts_in
from metis.run.folder import incomplete, latest
from metis.run.models import run_settings
from metis.run.waiting import Say

AUTO = "auto"
SHARED = "METIS_SHARED_DEVICE"
"""Set in the environment of runs that share a device with others."""


@dataclass(frozen=True)
class GeneratorChoice:
    """A generator of rollouts, and the reason for it."""

    generation: Literal["transformers", "vllm"]
    why: str

    def __str__(self) -> str:
        return f"{self.generation}, {self.why}"


def is_open(config: Config) -> bool:
    """True if `engine.generation` is `auto`: the generator is to be chosen."""
    return isinstance(config.engine, LocalSettings) and config.engine.generation == AUTO


def unable(settings: LocalSettings) -> str:
    """Why vLLM cannot generate here; empty if it can."""
    if not _on_gpu(settings):
        return "since vLLM needs a GPU"
    if find_spec("vllm") is None:
        return "since vLLM is not installed"
    return "since other runs share its device" if os.environ.get(SHARED) else ""


def _on_gpu(settings: LocalSettings) -> bool:
    if find_spec("torch") is None:
        return False
    from metis.engines.local.estimate.speed import on_gpu

    return on_gpu(settings.device)


def choice(
    config: Config, shape: ModelShape, size: StepSize, device: Device, steps: float | None = None
) -> GeneratorChoice:
    """The generator to use on this device, for this many steps or the run's budget."""
    settings = config.engine
    assert isinstance(settings, LocalSettings)
    if why := unable(settings):
        return GeneratorChoice("transformers", why)
    served = dataclasses.replace(settings, generation="vllm")
    needed = estimate.memory(shape, served, size, device).peak
    if needed > device.free:
        gigabytes = f"{needed / 1e9:,.0f} GB of GPU memory, of which {device.free / 1e9:,.0f}"
        return GeneratorChoice("transformers", f"since vLLM would need {gigabytes} are free")
    own, other = (estimate.seconds(shape, each, size, device) for each in (settings, served))
    steps = _steps(config, size, device, own.step) if steps is None else steps
    saved, start = steps * (own.rollout - other.rollout), vllm_starts_in(settings)
    if saved > start:
        why = f"which saves about {saved:,.0f} s and starts in {start:.0f} s"
        return GeneratorChoice("vllm", why)
    return GeneratorChoice(
        "transformers", f"since vLLM starts in {start:.0f} s and would save {max(0, saved):,.0f} s"
    )


def _steps(config: Config, size: StepSize, device: Device, seconds: float) -> float:
    """Steps until the first limit of the budget, about."""
    settings, budget = config.engine, config.training.budget
    assert isinstance(settings, LocalSettings)
    spent = (
        (budget.steps, 1.0),
        (budget.tokens, estimate.generated(settings, size)),
        (budget.processed, estimate.processed(settings, size, device)),
        (budget.seconds, seconds),
    )
    return min(whole / each for whole, each in spent if whole)


def chosen(config: Config, say: Say) -> Config:
    """The config of a run, its generator resolved."""
    return _chosen(config, step_size(config), None, say) if is_open(config) else config


def chosen_for_rollouts(config: Config, prompts: int, say: Say) -> Config:
    """The config for one round of rollouts of this many prompts, its generator resolved."""
    if not is_open(config):
        return config
    size = step_size(config)
    return _chosen(config, size and dataclasses.replace(size, prompts=prompts), 1.0, say)


def _chosen(config: Config, size: StepSize | None, steps: float | None, say: Say) -> Config:
    settings = config.engine
    assert isinstance(settings, LocalSettings)
    made = GeneratorChoice(
        "transformers", unable(settings) or "since the sizes of the model are not known"
    )
    if not unable(settings) and size is not None:
        from metis.engines.local.estimate.speed import measured

        shape = ModelShape.of(model_files.model(settings.model, say))
        if shape is not None:
            device = measured(settings.device, shape, min(settings.rows, size.rollouts))
            made = choice(config, shape, size, device, steps)
    if _on_gpu(settings):
        say(f"engine.generation = auto: {made}")
    return _with(config, made.generation)


def continued(config: Config, out: Path) -> Config:
    """The config with the generator that its run folder already uses, if it is open.

    Older folders name it in their settings.
    """
    settings = run_settings(out) if is_open(config) else None
    engine = settings["engine"] if settings else {}
    if engine.get("name") != "local":
        return config
    if engine.get("generation") in ("transformers", "vllm"):
        named = {"generation": engine["generation"]}
        resolved = {**config.resolved, "engine": {**config.resolved["engine"], **named}}
        return dataclasses.replace(_with(config, named["generation"]), resolved=resolved)
    saved = _saved(out)
    return _with(config, saved["generation"]) if "generation" in saved else config


def _saved(out: Path) -> Mapping[str, Any]:
    """The state of the engine in the latest checkpoint."""
    checkpoint = latest(out)
    if checkpoint is None:
        return {}
    _, folder = checkpoint
    try:
        return state.load_state(folder / "engine.state")
    except OSError as error:
        raise incomplete(folder, error) from None


def _with(config: Config, generation: str) -> Config:
    settings: Any = config.engine
    return dataclasses.replace(config, engine=dataclasses.replace(settings, generation=generation))


CHARACTERS = 3.5
"""Characters of a token, about."""
OPENING = 30
"""Tokens of a chat template, about."""
ASIDE = 12
"""Tokens beside the problem in a judge prompt, about."""
EXAMPLES = 150
"""Tokens that judge prompts begin with, about: the question and its examples."""
SAMPLE = 64
"""Prompts whose length is looked at."""


def step_size(config: Config) -> StepSize | None:
    """The work of a step, by the length of some prompts; None without data."""
    training, curriculum, pool = config.training, config.curriculum, config.pool()
    if pool is None or config.task is None:
        return None
    prompts = pool.prompts[:SAMPLE]
    chats = [config.task.episode(prompt).chat for prompt in prompts]
    asked = _tokens(sum(len(turn["content"]) for chat in chats for turn in chat), len(chats))
    common = {"opening": OPENING, "question": asked}
    needs = needs_of(curriculum)
    judged = 0
    if hasattr(curriculum, "judge"):
        judged = min(candidates(curriculum, training.batch), len(pool))
    if Embed in needs.requests:
        common |= {"judged": judged, "candidate": OPENING + asked}
    if needs.judges:
        common |= {
            "judged": judged + needs.replay,
            "learnt": _learnt(curriculum, training.batch + needs.replay),
            "shared": EXAMPLES,
            "candidate": ASIDE + _tokens(sum(len(prompt.text) for prompt in prompts), len(prompts)),
            "reply": needs.sampling.max_tokens if needs.sampling else 0,
        }
    return StepSize(training.batch, training.group, **common)


def _learnt(curriculum: Any, judgments: int) -> int:
    """The number of judgments that are trained on."""
    share = getattr(getattr(curriculum, "judge", None), "train", 1.0)
    return max(1, round(share * judgments))


def _tokens(characters: int, of: int) -> int:
    return round(characters / CHARACTERS / max(1, of))
