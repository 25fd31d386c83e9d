"""A GRPO step of the local engine and one of TRL's GRPOTrainer, with vLLM in the same process.

    python benchmarks/step.py --gpu [--problems data/math/math.parquet] [--lora 16] [--turns 3]

Both sides do the same work: the same model in float32 with bfloat16 passes and the same LoRA, the
same prompts in the same order, as many answers of at most so many tokens, random rewards that vary
in every group, one optimizer step a batch; vLLM has the same share of the GPU and does not sleep.
Each side runs in a process of its own. First TRL is tried with and without gradient checkpointing,
and with and without Liger's kernels where they are installed, or as --trl says; the quickest goes
on. Then both take turns of --steps steps each, and the one that waits gives back what its allocator
does not use. Seconds are medians over the steps of a turn; the peak is that of torch's allocator in
the trainer's process after warm-up (without a GPU, of the process's memory).
"""

import argparse
import contextlib
import importlib.util
import itertools
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, TextIO

import torch

from metis import Batch, Prompt
from metis.core import Chat, Message, Rollout
from metis.core.pool import Rewards
from metis.engines import model_files
from metis.engines.local.engine import LocalEngine
from metis.engines.local.settings import LocalSettings
from metis.settings.sections import task_of
from metis.tasks.base import SingleTurn


@dataclass(frozen=True)
class Work:
    """What a side does; `passed` answers, or `budget` tokens, go through the model at once."""

    model: str
    problems: str
    prompts: int
    group: int
    tokens: int
    lora: int
    passed: int
    budget: int
    vllm: float
    warm: int
    steps: int
    turns: int
    checkpointing: bool = False
    liger: bool = False

    @property
    def updates(self) -> int:
        """Optimizer steps in all turns."""
        return self.warm + self.turns * self.steps

    @property
    def chats(self) -> list[list[Message]]:
        """A chat for every prompt of all steps."""
        count = self.updates * self.prompts
        if self.problems:
            task = task_of({"task": {"name": "math", "path": self.problems, "verify": False}})
            found = [list(task.episode(prompt).chat) for prompt in task.training()[:count]]
        else:
            sums = (f"What is {10 + i} + {i * 37 % 90}? Explain briefly." for i in range(count))
            found = [[{"role": "user", "content": text}] for text in sums]
        if len(found) < count:
            raise SystemExit(f"{self.problems} has {len(found)} problems, fewer than {count}")
        return found

    def reward(self, prompt: int, answer: int) -> float:
        """A number for every answer of a prompt, the same on both sides."""
        return random.Random(f"{prompt}/{answer}").random()


@dataclass
class Measured:
    """Steps of a turn: their seconds and generated tokens; and the peak in bytes."""

    seconds: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    peak: float = 0.0

    @property
    def step(self) -> float:
        return statistics.median(self.seconds)

    def __str__(self) -> str:
        tokens, peak = statistics.mean(self.tokens), self.peak / (1 << 30)
        return f"{self.step:.3f} s, {tokens:,.0f} tokens generated, peak {peak:.2f} GiB"


class Stopwatch:
    """Times the steps of a side, which waits for a line of input before each turn.

    The first turn warms up. After a turn a line of JSON is written.
    """

    def __init__(self, work: Work, report: TextIO) -> None:
        self.work, self.report = work, report
        self.left = self.written = 0
        self.turns, self.measured = 0, Measured()
        self.gpu = torch.cuda.is_available()

    def begin(self) -> None:
        if not self.left:
            if not sys.stdin.readline():
                raise SystemExit("nobody asks for another turn")
            self.left, self.measured = self.work.steps if self.turns else self.work.warm, Measured()
            self.turns += 1
            if self.gpu:
                torch.cuda.reset_peak_memory_stats()
        self.written = 0
        self.started = self._now()

    def end(self) -> None:
        self.measured.seconds.append(self._now() - self.started)
        self.measured.tokens.append(self.written)
        self.left -= 1
        if not self.left:
            process = 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            self.measured.peak = torch.cuda.max_memory_allocated() if self.gpu else process
            torch.cuda.empty_cache()
            print(json.dumps(asdict(self.measured)), file=self.report, flush=True)

    def _now(self) -> float:
        if self.gpu:
            torch.cuda.synchronize()
        return time.perf_counter()


class Questions:
    """The prompts as a task of ours."""

    rewards: ClassVar[Rewards] = "continuous"

    def __init__(self, work: Work) -> None:
        self.work, self.chats = work, work.chats
        self.answers = [itertools.count() for _ in self.chats]

    def training(self) -> list[Prompt]:
        return [Prompt(str(i), chat[-1]["content"]) for i, chat in enumerate(self.chats)]

    def heldout(self) -> list[Prompt]:
        return self.training()[:1]

    def episode(self, prompt: Prompt) -> SingleTurn:
        number = int(prompt.id)
        return SingleTurn(
            self.chats[number], lambda _: self.work.reward(number, next(self.answers[number]))
        )


def ours(work: Work, report: TextIO) -> None:
    task, watch = Questions(work), Stopwatch(work, report)
    settings = LocalSettings(
        model=work.model,
        max_tokens=work.tokens,
        tokens=work.budget,
        lora=work.lora,
        generation="vllm" if work.vllm else "transformers",
        vllm_memory=work.vllm or 0.4,
        vllm_sleep=False,
        learning_rate=1e-6,
    )
    engine, prompts = LocalEngine(settings, task), task.training()
    for start in range(0, len(prompts), work.prompts):
        watch.begin()
        groups = engine.answer(Rollout(prompts[start : start + work.prompts], work.group))
        watch.written = sum(group.tokens for group in groups)
        engine.update(Batch(groups))
        watch.end()
    engine.close()


def trl(work: Work, report: TextIO) -> None:
    from datasets import Dataset
    from transformers import AutoTokenizer, PrinterCallback, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    watch = Stopwatch(work, report)

    class Steps(TrainerCallback):
        def on_step_begin(self, *_: object, **__: object) -> None:
            watch.begin()

        def on_step_end(self, *_: object, **__: object) -> None:
            watch.end()

    def reward(completion_ids: list[list[int]], number: list[int], **_: object) -> list[float]:
        watch.written += sum(map(len, completion_ids))
        return [work.reward(prompt, i % work.group) for i, prompt in enumerate(number)]

    folder = str(model_files.model(work.model))
    rows = [{"prompt": list(chat), "number": i} for i, chat in enumerate(work.chats)]
    with tempfile.TemporaryDirectory() as output, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = GRPOTrainer(
            folder,
            reward,
            GRPOConfig(output_dir=output, **trl_arguments(work, work.chats)),
            Dataset.from_list(rows),
            processing_class=AutoTokenizer.from_pretrained(folder, padding_side="left"),
            peft_config=adapters(work.lora),
            callbacks=[Steps()],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()


def adapters(rank: int) -> Any:
    """Our engine's LoRA, in PEFT's words."""
    if not rank:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"
    )


def trl_arguments(work: Work, chats: Sequence[Chat]) -> dict[str, object]:
    """The work in TRL's words; its importance weights for vLLM's numbers, a pass of their own that
    we do not make, are off."""
    longest = max(sum(len(turn["content"]) for turn in chat) for chat in chats)
    colocated = {
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_gpu_memory_utilization": work.vllm,
        "vllm_enable_sleep_mode": False,
        "vllm_max_model_length": work.tokens + longest + 256,
        "vllm_importance_sampling_correction": False,
    }
    return {
        **(colocated if work.vllm else {}),
        "max_steps": work.updates,
        "per_device_train_batch_size": work.passed,
        "gradient_accumulation_steps": work.prompts * work.group // work.passed,
        "num_generations": work.group,
        "max_completion_length": work.tokens,
        "shuffle_dataset": False,
        "temperature": 1.0,
        "learning_rate": 1e-6,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 1.0,
        "loss_type": "grpo",
        "scale_rewards": "none",
        "beta": 0.0,
        "use_cpu": not torch.cuda.is_available(),
        "bf16": torch.cuda.is_available(),
        "gradient_checkpointing": work.checkpointing,
        "use_liger_kernel": work.liger,
        "logging_strategy": "no",
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }


SIDES: dict[str, Callable[[Work, TextIO], None]] = {"ours": ours, "TRL": trl}


class Side:
    """A side in a process of its own, which does a turn when asked."""

    def __init__(self, name: str, work: Work) -> None:
        self.name = name
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 -- as long as the process
        self.process = subprocess.Popen(
            [sys.executable, __file__, name, json.dumps(asdict(work))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def turn(self) -> Measured | None:
        """The next turn; None, and why, if the process has failed."""
        given, answered = self.process.stdin, self.process.stdout
        assert given is not None and answered is not None
        with contextlib.suppress(BrokenPipeError):
            given.write("\n")
            given.flush()
        if line := answered.readline():
            return Measured(**json.loads(line))
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors if line.strip()]
        print(f"{self.name} failed: {lines[-1] if lines else self.process.wait()}", flush=True)
        return None

    def end(self) -> None:
        """Wait until the process has ended, and its memory is free."""
        self.process.communicate()


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "liger": {"liger": True},
    "checkpointing": {"checkpointing": True},
    "both": {"checkpointing": True, "liger": True},
}
"""TRL's settings by name."""


def quickest(work: Work, names: Sequence[str]) -> Work:
    """The work with TRL's settings, of those named, that have the quickest step."""
    variants = {name: replace(work, **VARIANTS[name]) for name in names}
    if len(variants) == 1:
        return next(iter(variants.values()))
    tried = {}
    for name, variant in variants.items():
        if variant.liger and not importlib.util.find_spec("liger_kernel"):
            print(f"liger-kernel is not installed, so TRL is not tried with it ({name})")
            continue
        side = Side("TRL", replace(variant, turns=1))
        if side.turn() and (found := side.turn()):
            print(f"TRL, {name}: {found}", flush=True)
            tried[variant] = found.step
        side.end()
    if not tried:
        raise SystemExit("TRL runs with none of these settings")
    return min(tried, key=lambda variant: tried[variant])


def compare(work: Work, names: Sequence[str]) -> None:
    """Both sides in turn, TRL with its quickest settings."""
    best = quickest(work, names)
    ratios, peaks = [], []
    sides = []
    for name, given in (("ours", work), ("TRL", best)):
        sides.append(Side(name, given))
        if not sides[-1].turn():
            raise SystemExit("a side failed, so there is nothing to compare")
    for _ in range(work.turns):
        mine, theirs = (side.turn() for side in sides)
        if mine is None or theirs is None:
            raise SystemExit("a side failed, so there is nothing to compare")
        print(f"ours: {mine}\nTRL:  {theirs}", flush=True)
        ratios.append(mine.step / theirs.step)
        peaks.append(mine.peak / theirs.peak)
    for side in sides:
        side.end()
    for name, found in (("seconds a step", ratios), ("peak memory", peaks)):
        each = ", ".join(f"{ratio:.3f}" for ratio in found)
        print(f"ours / TRL, {name}: {statistics.median(found):.3f} (each: {each})")


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    option = parser.add_argument
    option("--model", default="Qwen/Qwen2.5-1.5B-Instruct")
    option("--problems", default="", metavar="FILE", help="of task=math (default: sums)")
    option("--prompts", type=int, default=16)
    option("--group", type=int, default=8)
    option("--tokens", type=int, default=1024, help="of an answer, at most")
    option("--lora", type=int, default=16)
    option("--passed", type=int, default=16, help="answers that TRL passes through at once")
    option("--budget", type=int, default=16384, help="tokens that we pass through at once")
    option("--vllm", type=float, default=0.3, help="share of the GPU; 0 is without vLLM")
    option("--warm", type=int, default=2, help="steps that warm up")
    option("--steps", type=int, default=3, help="of a turn")
    option("--turns", type=int, default=3)
    option(
        "--trl",
        default=",".join(VARIANTS),
        help="TRL's settings to be tried: plain, "
        "liger, checkpointing (gradient checkpointing), both",
    )
    given = vars(parser.parse_args(words))
    if min(given["warm"], given["steps"], given["turns"]) < 1:
        parser.error("--warm, --steps and --turns are at least 1")
    names = given.pop("trl").split(",")
    compare(Work(**given), names)


if __name__ == "__main__":
    side, given = sys.argv[1:]
    with os.fdopen(os.dup(1), "w") as report:
        os.dup2(2, 1)  # what libraries print is none of the report
        SIDES[side](Work(**json.loads(given)), report)
