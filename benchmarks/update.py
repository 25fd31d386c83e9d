"""Utilisation of the hardware in the update: model FLOPs per second, as a share of the peak.

    python benchmarks/update.py [--model FOLDER] [--prompts 32] [--group 8] [--length 512]
                                [--tokens 16384] [--compile] [--peak 989]

A batch of random answers to random prompts, every one with an advantage, is trained on; of the
repeats after a first one the median is printed. FLOPs are those the model needs, 6 a weight and
token and the attention's 12 a layer, width and pair of tokens, halved for causality; what is
computed twice to save memory does not count, and the head counts for answers only. The peak is in
TFLOP/s: 989 is an H200's in bfloat16.
"""

import argparse
import statistics

import numpy as np
import torch

from metis import Batch, Group, Prompt
from metis.core import Trajectory
from metis.engines import model_files
from metis.engines.local.engine import LocalEngine
from metis.engines.local.settings import LocalSettings
from metis.tasks.arithmetic import Arithmetic, build


def batch(chosen: argparse.Namespace, vocabulary: int) -> Batch:
    draw = np.random.default_rng(0)
    groups = []
    for i in range(chosen.prompts):
        prompt = draw.integers(0, vocabulary, chosen.question)
        answers = [
            np.concatenate([prompt, draw.integers(0, vocabulary, length)])
            for length in draw.integers(chosen.length // 2, chosen.length * 3 // 2, chosen.group)
        ]
        trajectories = tuple(
            Trajectory(
                answer,
                np.arange(len(answer)) >= chosen.question,
                np.zeros(len(answer), dtype=np.float32),
                policy=1 << 30,
            )
            for answer in answers
        )
        rewards = tuple(float(value) for value in draw.random(chosen.group))
        groups.append(Group(Prompt(f"random:{i}", ""), rewards, trajectories))
    return Batch(groups)


def flops(engine: LocalEngine, given: Batch) -> float:
    config = engine.policy.base.config
    head = engine.policy.base.get_output_embeddings().weight.numel()
    weights = sum(
        module.weight.numel()
        for module in engine.policy.backbone.modules()
        if isinstance(module, torch.nn.Linear)
    )
    trajectories = [t for group in given.groups for t in group.trajectories]
    lengths = np.array([len(trajectory.tokens) for trajectory in trajectories])
    answers = sum(int(trajectory.loss_mask.sum()) for trajectory in trajectories)
    pairs = 6 * config.num_hidden_layers * config.hidden_size * np.square(lengths).sum()
    return float(6 * (weights * lengths.sum() + head * answers) + pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--question", type=int, default=128, help="tokens of a prompt")
    parser.add_argument("--length", type=int, default=512, help="mean tokens of an answer")
    parser.add_argument("--tokens", type=int, default=16384, help="padded tokens in one pass")
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peak", type=float, default=989.0, help="TFLOP/s of the hardware")
    chosen = parser.parse_args()
    settings = LocalSettings(
        model=str(model_files.model(chosen.model)),
        device=chosen.device,
        tokens=chosen.tokens,
        checkpointing=chosen.checkpointing,
        compile=chosen.compile,
    )
    engine = LocalEngine(settings, build(Arithmetic(prompts=1, heldout=1), 0))
    given = batch(chosen, engine.policy.base.config.vocab_size)
    seconds = []
    for _ in range(chosen.repeats + 1):
        start = engine.clock()
        engine.update(given)
        seconds.append(engine.clock() - start)
    spent = statistics.median(seconds[1:])
    total = sum(len(t.tokens) for group in given.groups for t in group.trajectories)
    reached = flops(engine, given) / spent / 1e12
    print(f"{engine.policy.device}: {total:,} tokens in {spent:.3f} s, {total / spent:,.0f}/s")
    print(f"{reached:.2f} TFLOP/s: {reached / chosen.peak:.1%} of {chosen.peak:g}")
    if engine.policy.device.type == "cuda":
        print(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
