"""Steps of TRL's GRPOTrainer with METIS and without: informative share and seconds a step.

    python benchmarks/in_trl.py [--model Qwen/Qwen2.5-1.5B-Instruct] [--problems FILE]
        [--prompts 16] [--group 8] [--tokens 1024] [--vllm 0.3] [--steps 30] [--skip 2]
        [--arms trl uniform readout] [--out runs/in-trl]

arm      prompts of a step
trl      drawn by TRL's own sampler, without METIS
uniform  proposed by `metis.Selector`, by uniform sampling
readout  selected by METIS from eight times as many, on hidden states of the trainer's model

Each arm is trained in a process of its own, with TRL's defaults but for the sizes, and writes a
line for every step to OUT/ARM.jsonl; an arm that is there already is read, not run again. The table
has means over the steps after the first ones, with standard errors over steps, and the median
seconds from the end of one step to the end of the next. Without --problems they are sums; a file is
one of task=math, whose answers have to be those of the file. On one H200:

    metis prepare math
    python benchmarks/in_trl.py --problems data/math/dapo.parquet
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from metis import Prompt
from metis.engines import model_files
from metis.settings.sections import task_of
from metis.tasks.base import Task

ARMS = ("trl", "uniform", "readout")
SUMS = {"name": "arithmetic", "levels": [1, 2, 3, 4, 5, 6], "prompts": 2000}
COLUMNS = ("informative", "reward", "tokens")


@dataclass(frozen=True)
class Work:
    """What an arm does; `passed` answers go through the model at once, `vllm` is its share."""

    model: str
    problems: str
    prompts: int
    group: int
    tokens: int
    passed: int
    vllm: float
    steps: int

    def task(self) -> Task:
        math = {"name": "math", "path": self.problems, "verify": False}
        return task_of({"task": math if self.problems else SUMS})


class Problems:
    """The rows of a task as TRL has them, and what answers to them earn."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.prompts: list[Prompt] = list(task.training())
        random.Random(0).shuffle(self.prompts)
        self.rows: list[dict[str, Any]] = [
            {"prompt": list(task.episode(prompt).chat), "place": place}
            for place, prompt in enumerate(self.prompts)
        ]

    def score(self, place: int, reply: str) -> float:
        episode: Any = self.task.episode(self.prompts[place])
        episode.reply(reply)
        earned = episode.reward()
        return float(earned["score"] if isinstance(earned, dict) else earned)


class Log:
    """A line for every step: the seconds since the last one, and what its answers earned."""

    def __init__(self, problems: Problems, group: int, path: Path) -> None:
        self.problems, self.group, self.path = problems, group, path
        self.lines: list[dict[str, float]] = []
        self.noted: dict[str, float] = {}
        self.read = 0.0
        """Seconds in which hidden states were read."""

    def reward(
        self, completions: list[Any], completion_ids: list[list[int]], place: list[int], **_: Any
    ) -> list[float]:
        replies = [completion[-1]["content"] for completion in completions]
        rewards = [self.problems.score(*each) for each in zip(place, replies, strict=True)]
        groups = [rewards[i : i + self.group] for i in range(0, len(rewards), self.group)]
        self.noted = {
            "informative": statistics.fmean(min(group) < max(group) for group in groups),
            "reward": statistics.fmean(rewards),
            "tokens": statistics.fmean(map(len, completion_ids)),
        }
        return rewards

    def begin(self) -> None:
        self.last, self.read = _now(), 0.0

    def end(self) -> None:
        now = _now()
        line = {"step": len(self.lines), "seconds": now - self.last, "embedding": self.read}
        self.lines.append({**line, **self.noted})
        self.last, self.read = now, 0.0
        with self.path.open("a") as file:
            file.write(json.dumps(self.lines[-1]) + "\n")


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def arguments(work: Work, problems: Problems) -> dict[str, Any]:
    longest = max(sum(len(turn["content"]) for turn in row["prompt"]) for row in problems.rows)
    colocated = {
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_gpu_memory_utilization": work.vllm,
        "vllm_max_model_length": work.tokens + longest + 256,
    }
    return {
        **(colocated if work.vllm else {}),
        "max_steps": work.steps,
        "per_device_train_batch_size": work.passed,
        "gradient_accumulation_steps": work.prompts * work.group // work.passed,
        "num_generations": work.group,
        "max_completion_length": work.tokens,
        "use_cpu": not torch.cuda.is_available(),
        "bf16": torch.cuda.is_available(),
        "logging_strategy": "no",
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }


def chosen(arm: str, work: Work, log: Log) -> dict[str, Any]:
    """The arguments of the trainer that differ between the arms."""
    import metis
    import metis.trl

    class Timed(metis.trl.Policy):
        def __call__(self, request: Any) -> Any:
            start = _now()
            answer = super().__call__(request)
            log.read += _now() - start
            return answer

    if arm == "trl":
        from datasets import Dataset

        rows = Dataset.from_list(log.problems.rows)
        return {"reward_funcs": log.reward, "train_dataset": rows, "callbacks": []}
    curricula: dict[str, dict[str, Any]] = {
        "uniform": {"curriculum": "uniform"},
        "readout": {"curriculum": "metis", "preset": "readout", "ask": Timed()},
    }
    sizes: dict[str, Any] = {"batch": work.prompts, "group": work.group, "steps": work.steps}
    kind = log.problems.task.rewards
    selector = metis.Selector(log.problems.rows, **curricula[arm], **sizes, rewards=kind)
    return {
        "reward_funcs": metis.trl.watch(selector, log.reward),
        "train_dataset": metis.trl.stream(selector),
        "callbacks": [metis.trl.State(selector)],
    }


def train(arm: str, work: Work, path: Path) -> None:
    """Train an arm; a line of `path` for every step."""
    from transformers import PrinterCallback, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    log = Log(Problems(work.task()), work.group, path)
    differing = chosen(arm, work, log)

    class Steps(TrainerCallback):
        def on_train_begin(self, *_: object, **__: object) -> None:
            log.begin()

        def on_step_end(self, *_: object, **__: object) -> None:
            log.end()

    given = {**arguments(work, log.problems), "shuffle_dataset": arm == "trl"}
    with tempfile.TemporaryDirectory() as output, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = GRPOTrainer(
            str(model_files.model(work.model)),
            args=GRPOConfig(output_dir=output, **given),
            **{**differing, "callbacks": [*differing["callbacks"], Steps()]},
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()


def lines(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def ran(arm: str, work: Work, out: Path) -> list[dict[str, float]]:
    """The steps of an arm, trained in a process of its own if they are not there."""
    path = out / f"{arm}.jsonl"
    if len(lines(path)) < work.steps:
        path.unlink(missing_ok=True)
        words = [sys.executable, __file__, "--train", arm, json.dumps(asdict(work)), str(path)]
        if subprocess.run(words).returncode:
            raise SystemExit(f"{arm} failed, as said above")
    return lines(path)[: work.steps]


def row(arm: str, steps: Sequence[dict[str, float]]) -> str:
    """A line of the table: means with standard errors over steps, and median seconds."""
    cells = []
    for name in COLUMNS:
        values = [step[name] for step in steps]
        error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
        digits = 0 if name == "tokens" else 3
        cells.append(f"{statistics.fmean(values):.{digits}f} ± {error:.{digits}f}")
    for name in ("seconds", "embedding"):
        cells.append(f"{statistics.median(step[name] for step in steps):.2f}")
    return f"{arm:10}" + "".join(f"{cell:>16}" for cell in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    option = parser.add_argument
    option("--model", default="Qwen/Qwen2.5-1.5B-Instruct")
    option("--problems", default="", metavar="FILE", help="of task=math (default: sums)")
    option("--prompts", type=int, default=16)
    option("--group", type=int, default=8)
    option("--tokens", type=int, default=1024, help="of an answer, at most")
    option("--passed", type=int, default=16, help="answers that pass through at once")
    option("--vllm", type=float, default=0.3, help="share of the GPU; 0 is without vLLM")
    option("--steps", type=int, default=30)
    option("--skip", type=int, default=2, help="the first steps, not counted")
    option("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    option("--out", type=Path, default=Path("runs/in-trl"))
    given = vars(parser.parse_args())
    skip, arms, out = given.pop("skip"), given.pop("arms"), given.pop("out")
    if given["steps"] <= skip:
        parser.error(f"--steps {given['steps']}: use more than --skip {skip}")
    work = Work(**given)
    out.mkdir(parents=True, exist_ok=True)
    kept, about = out / "work.json", json.dumps(asdict(work))
    if kept.exists() and kept.read_text() != about:
        raise SystemExit(f"{out} is of {kept.read_text()}: name another --out")
    kept.write_text(about)
    found = {arm: ran(arm, work, out)[skip:] for arm in arms}
    print(f"{'arm':10}" + "".join(f"{name:>16}" for name in (*COLUMNS, "seconds", "embedding")))
    for arm, steps in found.items():
        print(row(arm, steps))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        arm, given, path = sys.argv[2:]
        train(arm, Work(**json.loads(given)), Path(path))
    else:
        main()
