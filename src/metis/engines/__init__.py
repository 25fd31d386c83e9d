"""Engines: answer the requests of a plan, and update the policy."""

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from metis.core.pool import Pool
from metis.engines import simulated
from metis.engines.local.settings import LocalSettings
from metis.engines.verl.settings import VerlSettings
from metis.errors import MetisError, pip_install
from metis.run.waiting import Say
from metis.tasks.base import Task

EngineSettings = LocalSettings | VerlSettings | simulated.Simulation


class EngineEntry(NamedTuple):
    """An engine's settings class, and how to build it.

    pool         settings, task, seed, data seed -> the training prompts, without a model
    build        the same and `say`, which prints progress lines -> the engine
    plays_tasks  false if it has its own task
    trainer      its own trainer (`metis.start.Trainer`); none is METIS's training loop
    all_devices  true if one run uses all GPUs of the machine
    """

    settings: type[Any]
    pool: Callable[[Any, Any, int, int], Pool]
    build: Callable[[Any, Any, int, int, Say], Any]
    plays_tasks: bool = True
    trainer: Callable[[], Any] | None = None
    all_devices: bool = False


def _task_pool(
    settings: LocalSettings | VerlSettings, task: Task, seed: int, data_seed: int
) -> Pool:
    return Pool(task.training(), task.rewards, seed)


def _simulated_pool(settings: simulated.Simulation, task: None, seed: int, data_seed: int) -> Pool:
    return simulated.build_simulation(settings, seed, data_seed)[1]


def _build_simulated(
    settings: simulated.Simulation, task: None, seed: int, data_seed: int, say: Say
) -> Any:
    return simulated.build_simulation(settings, seed, data_seed)[0]


def _build_local(settings: LocalSettings, task: Any, seed: int, data_seed: int, say: Say) -> Any:
    try:
        from metis.engines.local.engine import LocalEngine
    except ImportError as error:
        raise MetisError(
            f"engine = 'local': {error}: {pip_install('local')}, or use engine=simulated"
        ) from None
    return LocalEngine(settings, task, seed, say)


def _build_verl(
    settings: VerlSettings, task: Task, seed: int, data_seed: int, say: Say
) -> NoReturn:
    raise MetisError(
        "engine = 'verl': its rollout servers only run in training (`metis train`, `metis "
        "compare`): use engine=local here; a model that fits no single GPU can be served by "
        "`vllm serve MODEL --tensor-parallel-size N` and ranked by `metis judge MODEL FILE "
        "--server URL`"
    )


def _verl_trainer() -> Any:
    from metis.engines.verl.launch import command

    return command


ENGINES: dict[str, EngineEntry] = {
    "local": EngineEntry(LocalSettings, _task_pool, _build_local),
    "simulated": EngineEntry(
        simulated.Simulation, _simulated_pool, _build_simulated, plays_tasks=False
    ),
    "verl": EngineEntry(
        VerlSettings, _task_pool, _build_verl, trainer=_verl_trainer, all_devices=True
    ),
}
