"""Starts verl on this CPU, with a tiny model, as its users start it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
ENVIRONMENT = {
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",
    "VERL_USE_EXTERNAL_MODULES": "verl_on_cpu,in_full_precision",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_worker_register_timeout_seconds": "900",
    "VERL_LOGGING_LEVEL": "WARN",
    "PYTHONWARNINGS": "ignore",
    "RAY_ADDRESS": "local",  # whatever other clusters are on this machine
}


def cpu_overrides(workers: int) -> list[str]:
    """Overrides of every run on a CPU; SGD shows the gradient in the weights."""
    rollout, actor = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"
    return [
        "data.dataloader_num_workers=0",
        "actor_rollout_ref.model.enable_gradient_checkpointing=False",
        "+actor_rollout_ref.model.override_config.attn_implementation=sdpa",
        f"{actor}.strategy=fsdp2",
        f"{actor}.use_torch_compile=False",
        f"{actor}.fsdp_config.model_dtype=fp32",
        f"+{actor}.fsdp_config.mixed_precision={{param_dtype:fp32,reduce_dtype:fp32}}",
        f"{actor}.optim.optimizer=SGD",
        f"{actor}.checkpoint.save_contents=[model,optimizer,extra,hf_model]",
        f"{rollout}.agent.num_workers=1",
        "reward.num_workers=1",
        f"reward.custom_reward_function.path={HERE / 'even_reward.py'}",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
        "trainer.device=cpu",
        f"trainer.n_gpus_per_node={workers}",
        "ray_kwargs.ray_init.num_cpus=32",
        f"+ray_kwargs.ray_init.num_gpus={workers}",
        "+ray_kwargs.ray_init.include_dashboard=False",
    ]


def environment(modules: str = "", **more: str) -> dict[str, str]:
    """The variables of every process of a run."""
    places = [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    variables = {**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join(places), **more}
    if modules:
        variables["VERL_USE_EXTERNAL_MODULES"] += f",{modules}"
    return variables


def start(
    arguments: Sequence[str], folder: Path, modules: str = "", **more: str
) -> subprocess.Popen[bytes]:
    """A Python command in the environment of the tests, with more variables; its output is in
    `folder`/log."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("ab") as log:
        command = [sys.executable, *arguments]
        return subprocess.Popen(
            command, env=environment(modules, **more), cwd=folder, stdout=log, stderr=log
        )


def finish(process: subprocess.Popen[bytes], folder: Path, seconds: float = 1200.0) -> None:
    try:
        code = process.wait(timeout=seconds)
    finally:
        process.kill()
    assert code == 0, (folder / "log").read_text(errors="replace")[-6000:]
