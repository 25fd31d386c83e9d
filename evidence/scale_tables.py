"""Tables of the estimate of a step on verl: against the runs in this folder, and for larger models
on more GPUs."""

import json
import statistics
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from step_tables import EVIDENCE, VERL, Steps

from metis.engines.local.estimate.shape import ModelShape
from metis.engines.local.estimate.step import Seconds, StepSize
from metis.engines.verl import estimate
from metis.engines.verl.estimate import GpuMemory
from metis.engines.verl.settings import VerlSettings
from metis.run import folder as run_folder
from metis.text import markdown_table

REPLACED = "metis-direct"
"""A run of code that asked a server twenty times for each candidate."""
JUDGE_PROMPT = {"shared": 250, "candidate": 100}
"""Tokens in these runs, about."""

QWEN = {"vocab_size": 151_936, "num_key_value_heads": 8, "head_dim": 128}
MODELS: dict[str, dict[str, Any]] = {
    "SmolLM2-135M": {
        **{"vocab_size": 49_152, "num_hidden_layers": 30, "hidden_size": 576},
        **{"intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3},
        "tie_word_embeddings": True,
    },
    "Qwen2.5-1.5B": {
        **{"vocab_size": 151_936, "num_hidden_layers": 28, "hidden_size": 1536},
        **{"intermediate_size": 8960, "num_attention_heads": 12, "num_key_value_heads": 2},
        "tie_word_embeddings": True,
    },
    "Qwen3-4B": {
        **QWEN,
        **{"num_hidden_layers": 36, "hidden_size": 2560, "intermediate_size": 9728},
        **{"num_attention_heads": 32, "tie_word_embeddings": True},
    },
    "Qwen3-8B": {
        **QWEN,
        **{"num_hidden_layers": 36, "hidden_size": 4096, "intermediate_size": 12_288},
        "num_attention_heads": 32,
    },
    "Qwen3-32B": {
        **QWEN,
        **{"num_hidden_layers": 64, "hidden_size": 5120, "intermediate_size": 25_600},
        "num_attention_heads": 64,
    },
}
"""config.json of each model, as published."""
LARGE = ("Qwen2.5-1.5B", "Qwen3-4B", "Qwen3-8B", "Qwen3-32B")
GPUS = (1, 8, 16, 64)
RANK = 64
SAID = ("estimated", "ratio")
PAPER = StepSize(256, 8, 30, 70, 2304, 128, 693, 115)
"""The paper's batch, with a `direct` judge, its replay and `judge.train=0.25`."""


def compared() -> Iterator[tuple[str, tuple[float, float], tuple[float, float]]]:
    """The runs on verl: GB at most and seconds of a step, as measured and as estimated."""
    for run in (run for group in VERL for run in group if not run.run.endswith(REPLACED)):
        memory, seconds = _estimated(run)
        measured = (_memory(run) / 1e9, run.mean("step"))
        yield run.run, measured, (memory.training / 1e9, seconds.step)


def errors() -> str:
    """Every run on verl: memory and seconds, measured, estimated, and the ratio."""
    rows = [["run", *(part for what in ("memory, GB", "step, s") for part in (what, *SAID))]]
    for run, measured, estimated in compared():
        pairs = zip(measured, estimated, strict=True)
        cells = ((f"{was:.1f}", f"{said:.1f}", f"{said / was:.2f}") for was, said in pairs)
        rows.append([f"`{run}`", *(part for cell in cells for part in cell)])
    return markdown_table(rows)


def _estimated(run: Steps) -> tuple[GpuMemory, Seconds]:
    """What a dry run says of these settings, with the run's prompts and judgments."""
    config = json.loads((EVIDENCE / run.run / "config.json").read_text("utf-8"))
    engine, known = config["engine"], {each.name for each in fields(VerlSettings)}
    settings = VerlSettings(**{key: value for key, value in engine.items() if key in known})
    rows = _rows(run)
    read = (row["rollout/processed"] - row["rollout/tokens"] for row in rows)
    prompt = statistics.fmean(read) / config["batch"] / config["group"]
    asked, learnt, written = (
        statistics.fmean(row.get(name, 0.0) for row in rows)
        for name in ("judge/asked", "update/judgments", "judge/tokens")
    )
    size = StepSize(config["batch"], config["group"], 0, round(prompt))
    if asked:
        reply = round(written / asked)
        size = replace(size, judged=round(asked), learnt=round(learnt), reply=reply, **JUDGE_PROMPT)
    shape = ModelShape.described(MODELS["SmolLM2-135M" if "smol" in engine["model"] else LARGE[0]])
    return estimate.memory(shape, settings, size), estimate.seconds(shape, settings, size)


def _memory(run: Steps) -> float:
    """Bytes of the actor's process, at most."""
    return max(row["actor/perf/max_memory_allocated_gb"] for row in _rows(run)) * 2**30


def _rows(run: Steps) -> list[dict[str, Any]]:
    rows = run_folder.read_log(EVIDENCE / run.run, "metrics")
    return [row for row in rows if "rollout/processed" in row][run.skip : run.last]


def settings(count: int, lora: int) -> VerlSettings:
    """The paper's answers on so many GPUs, eight a node, two a rollout server."""
    nodes = max(1, count // 8)
    return VerlSettings(
        nodes=nodes,
        gpus=count // nodes,
        tensor=min(count, 2),
        max_tokens=8192,
        tokens=16_384,
        lora=lora,
    )


def memory() -> str:
    """GB of a GPU at most."""
    return _table(lambda shape, given: f"{_gigabytes(shape, given):.0f}")


def seconds() -> str:
    """Seconds of a step, where it fits."""
    return _table(
        lambda shape, given: (
            f"{estimate.seconds(shape, given, PAPER).step:,.0f}"
            if 1e9 * _gigabytes(shape, given) <= estimate.MEMORY
            else "does not fit"
        )
    )


def _gigabytes(shape: ModelShape, given: VerlSettings) -> float:
    return estimate.memory(shape, given, PAPER).peak / 1e9


def _table(cell: Any) -> str:
    rows = [["model", "weights", *(f"{count} GPU{'s' * (count > 1)}" for count in GPUS)]]
    for name, lora in _variants():
        shape = ModelShape.described(MODELS[name])
        cells = (cell(shape, settings(count, lora)) for count in GPUS)
        rows.append([name, f"LoRA of rank {lora}" if lora else "all", *cells])
    return markdown_table(rows)


def _variants() -> Iterator[tuple[str, int]]:
    return ((name, lora) for name in LARGE for lora in (0, RANK))
