"""Cost of a training step: against TRL's GRPOTrainer, and of METIS against uniform sampling.

    python benchmarks/step.py [--model FOLDER] [--prompts 4] [--group 4] [--tokens 32]
                              [--pairs 5] [--steps 3]
    python benchmarks/step.py --gpu [options of against_trl.py]

Both sides do the same work with the same model: as many rollouts of the same prompts, each exactly
as long (ends of turn are suppressed), the same rewards, one optimizer step; float32 on a CPU,
float32 weights with bfloat16 passes on a GPU. They take turns (ours, TRL, ours, TRL, ...), TRL in
its own training loop. The first pair warms up; of the others the medians are printed, and the
median of their ratios. "Without skipping" every group has an advantage; "with skipping" half of the
groups have none, which our update leaves out.

Then METIS and uniform sampling take turns on our engine, with rollouts and rewards as before; the
judge's replies end where they end. Without TRL only this part is measured.

With --gpu both sides generate with vLLM, each in a process of its own (`against_trl.py`).
"""

import argparse
import importlib.util
import random
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from metis import Batch, Group, Pool, Progress, Prompt, drive
from metis.core import Counts, Message, Rollout
from metis.core.pool import Rewards
from metis.curricula.judges import Direct, Judge, Reason
from metis.curricula.metis import Metis
from metis.curricula.uniform import Uniform
from metis.engines import model_files
from metis.engines.local.engine import LocalEngine
from metis.engines.local.settings import LocalSettings
from metis.run.meter import Meter
from metis.tasks.base import SingleTurn

Seconds = dict[str, float]


@dataclass
class FixedRewards:
    """Questions whose k-th rollout always earns the k-th reward, whatever it says."""

    given: Sequence[Sequence[float]]
    """Rewards of a group; the prompts take them in turn."""
    count: int
    rewards: ClassVar[Rewards] = "continuous"
    rollouts: dict[str, int] = field(default_factory=dict)

    def training(self) -> list[Prompt]:
        return [
            Prompt(f"sum:{i}", f"What is {10 + i} + {i * 37 % 90}? Explain each step briefly.")
            for i in range(self.count)
        ]

    def heldout(self) -> list[Prompt]:
        return self.training()[:1]

    def episode(self, prompt: Prompt) -> SingleTurn:
        row = self.given[int(prompt.id.split(":")[1]) % len(self.given)]
        number = self.rollouts[prompt.id] = self.rollouts.get(prompt.id, -1) + 1
        chat: list[Message] = [{"role": "user", "content": prompt.text}]
        return SingleTurn(chat, lambda _: row[number % len(row)])


class FixedLength(LocalEngine):
    """Rollouts go on to the last token; all else ends where it ends."""

    def rollout(self, prompts: Sequence[Prompt], n: Counts) -> list[Group]:
        stops, self.policy.stops = self.policy.stops, set()
        try:
            return super().rollout(prompts, n)
        finally:
            self.policy.stops = stops


def rewards(prompts: int, group: int, flat: int) -> list[list[float]]:
    """Random rewards, the same at every call; those of the first `flat` prompts do not vary."""
    rng = random.Random(0)
    rows = [[rng.random() for _ in range(group)] for _ in range(prompts)]
    return [[0.5] * group] * flat + rows[flat:]


def our_step(engine: LocalEngine, prompts: Sequence[Prompt], group: int) -> Seconds:
    meter = Meter(engine)
    groups = meter.answer(Rollout(prompts, group))
    with meter.phase("update"):
        engine.update(Batch(groups))
    lengths = {int(t.loss_mask.sum()) for g in groups for t in g.trajectories}
    assert lengths == {engine.settings.max_tokens}, lengths
    generation = meter.seconds["rollout"] + meter.seconds.get("reward", 0.0)
    return {"generation": generation, "update": meter.seconds["update"]}


def run_trl(
    folder: Path,
    chosen: argparse.Namespace,
    task: FixedRewards,
    engine: LocalEngine,
    ours: Callable[[], None],
) -> list[Seconds]:
    """TRL's own training loop; `ours` is called before each of its steps."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    steps: list[Seconds] = []
    marks: Seconds = {}

    class Turns(TrainerCallback):
        def on_step_begin(self, *_: object, **__: object) -> None:
            ours()
            marks["begin"] = engine.clock()

        def on_step_end(self, *_: object, **__: object) -> None:
            update = engine.clock() - marks["generated"]
            steps.append({"generation": marks["generated"] - marks["begin"], "update": update})

    def reward(completion_ids: list[list[int]], **_: object) -> list[float]:
        """Called when generation is over."""
        marks["generated"] = engine.clock()
        assert {len(tokens) for tokens in completion_ids} == {chosen.tokens}
        return [value for row in task.given for value in row]

    chats = [list(task.episode(prompt).chat) for prompt in task.training()]
    rows = [{"prompt": chat} for _ in range(chosen.pairs + 1) for chat in chats]
    with tempfile.TemporaryDirectory() as output, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = GRPOTrainer(
            AutoModelForCausalLM.from_pretrained(folder, dtype="float32"),
            reward,
            GRPOConfig(output_dir=output, **trl_arguments(chosen, engine)),
            Dataset.from_list(rows),
            processing_class=AutoTokenizer.from_pretrained(folder, padding_side="left"),
            callbacks=[Turns()],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return steps


def trl_arguments(chosen: argparse.Namespace, engine: LocalEngine) -> dict[str, object]:
    """Our engine's settings in TRL's words."""
    settings, device = engine.settings, engine.policy.device.type
    return {
        "max_steps": chosen.pairs + 1,
        "per_device_train_batch_size": chosen.prompts * chosen.group,
        "num_generations": chosen.group,
        "max_completion_length": chosen.tokens,
        "generation_kwargs": {"min_new_tokens": chosen.tokens},
        "shuffle_dataset": False,
        "temperature": settings.temperature,
        "learning_rate": settings.learning_rate,
        "lr_scheduler_type": "constant",
        "max_grad_norm": settings.gradient_clip,
        "loss_type": "grpo",
        "scale_rewards": "none",
        "beta": 0.0,
        "use_cpu": device == "cpu",
        "bf16": device == "cuda",
        "gradient_checkpointing": settings.checkpointing,
        "logging_strategy": "no",
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }


def compare(folder: Path, chosen: argparse.Namespace, name: str, flat: int) -> None:
    """Both sides in turn, with `flat` groups that have no advantage."""
    task = FixedRewards(rewards(chosen.prompts, chosen.group, flat), chosen.prompts)
    engine = FixedLength(LocalSettings(model=str(folder), max_tokens=chosen.tokens), task)
    mine: list[Seconds] = []
    prompts = task.training()
    theirs = run_trl(
        folder, chosen, task, engine, lambda: mine.append(our_step(engine, prompts, chosen.group))
    )
    mine, theirs = mine[1:], theirs[1:]
    for side, steps in (("ours", mine), ("TRL", theirs)):
        parts = {key: statistics.median(step[key] for step in steps) for key in steps[0]}
        whole = statistics.median(sum(step.values()) for step in steps)
        shown = ", ".join(f"{key} {value:.3f}" for key, value in parts.items())
        print(f"{side:5} {name}: {shown}, step {whole:.3f} s", flush=True)
    ratios = [sum(a.values()) / sum(b.values()) for a, b in zip(mine, theirs, strict=True)]
    print(f"ours / TRL {name}: {statistics.median(ratios):.3f}", flush=True)


def overhead(folder: Path, chosen: argparse.Namespace) -> None:
    """METIS against uniform sampling, two judges, step by step in turn."""
    size = {"batch": chosen.prompts, "group": chosen.group}
    task = FixedRewards(rewards(chosen.prompts, chosen.group, 0), 40 * chosen.prompts)
    engine = FixedLength(LocalSettings(model=str(folder), max_tokens=chosen.tokens), task)
    pool = Pool(task.training(), "continuous")
    judges: dict[str, Judge[Any]] = {"direct": Direct(), "reason": Reason(max_tokens=64)}
    curricula = {"uniform": Uniform(**size)} | {
        name: Metis(**size, multiplier=4, explore=0.1, trial=0, judge=judge)
        for name, judge in judges.items()
    }
    seconds: dict[str, list[Seconds]] = {name: [] for name in curricula}
    for step in range(chosen.steps + 2):  # the first fills the memory, the second warms up
        for name, curriculum in curricula.items():
            meter, started = Meter(engine), engine.clock()
            batch = drive(curriculum.step(pool, Progress(step, policy=engine.version)), meter)
            judging = meter.seconds.get("judge", 0.0)
            with meter.phase("update"):
                engine.update(batch)
            seconds[name].append(
                {
                    "judging": judging,
                    "judge's part": meter.seconds.get("judge", 0.0) - judging,
                    "step": engine.clock() - started,
                }
            )
    uniform = [spent["step"] for spent in seconds["uniform"][2:]]
    print(f"uniform step {statistics.median(uniform):.3f} s")
    for mode in judges:
        steps = seconds[mode][2:]
        part = statistics.median(spent["judge's part"] for spent in steps)
        ratio = statistics.median(s["step"] / u for s, u in zip(steps, uniform, strict=True))
        print(
            f"METIS {mode}: judging {statistics.median(s['judging'] for s in steps):.3f} s, "
            f"the judge's part of the update {part:.3f} s, "
            f"step {statistics.median(s['step'] for s in steps):.3f} s\n"
            f"METIS {mode} / uniform: {ratio:.3f}"
        )


def main() -> None:
    if "--gpu" in sys.argv:
        import against_trl

        against_trl.main([word for word in sys.argv[1:] if word != "--gpu"])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m", help="a folder with a model")
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--group", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=32, help="new tokens of every rollout")
    parser.add_argument("--pairs", type=int, default=5, help="steps of ours and TRL")
    parser.add_argument("--steps", type=int, default=3, help="steps of METIS and uniform")
    chosen = parser.parse_args()
    folder = model_files.model(chosen.model)
    if importlib.util.find_spec("trl") is None:
        print("trl is not installed, so the comparison is left out: pip install -e '.[trl]'")
    else:
        compare(folder, chosen, "without skipping", 0)
        compare(folder, chosen, "with skipping", chosen.prompts // 2)
    overhead(folder, chosen)


if __name__ == "__main__":
    main()
