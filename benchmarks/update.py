"""Time and memory of the update: of a whole one, and of the LM head with and without all logits.

    python benchmarks/update.py [--model FOLDER] [--shape 1536,8960,28,12,2,151936] [--lora 16]
                                [--prompts 32] [--group 8] [--length 512] [--tokens 16384]
                                [--checkpointing] [--compile] [--peak 989]

A batch of random answers to random prompts, every one with an advantage, is trained on; of the
repeats after a first one the median is printed. With --shape weights are random: width of hidden
and of inner states, layers, heads, heads of keys, words. That above is Qwen2.5-1.5B's.

FLOPs are those the model needs: 6 a trained weight and token, 4 a frozen one, and the attention's
12 a layer, width and pair of tokens, halved for causality; what is computed twice to save memory
does not count, and the head counts for answers only. The peak is in TFLOP/s: 989 is an H200's in
bfloat16.

Peak memory has weights and the optimizer's state in it: on a GPU as the allocator counts, elsewhere
the bytes of all tensors, without what kernels use inside. The head is measured on --tokens
positions.
"""

import argparse
import statistics
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from metis import Batch, Group, Prompt
from metis.core import Trajectory
from metis.engines import model_files
from metis.engines.local.engine import LocalEngine
from metis.engines.local.model.head import chosen_logprobs
from metis.engines.local.settings import LocalSettings
from metis.tasks.arithmetic import Arithmetic, build

GIB = 1 << 30


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all tensors that are made inside, and their highest sum."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self.known: set[int] = set()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(made):
            if isinstance(tensor, torch.Tensor):
                self._note(tensor.untyped_storage())
        return made

    def _note(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self.known:
            self.known.add(key)
            self.now += size
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size


def peak_memory(device: torch.device, work: Callable[[], object]) -> float:
    """GiB that this work adds at most to what is held before it."""
    if device.type == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        work()
        return float(torch.cuda.max_memory_allocated() - before) / GIB
    with LiveBytes() as live:
        work()
    return float(live.peak) / GIB


def held(engine: LocalEngine) -> float:
    """GiB of weights and the optimizer's state."""
    states = [state for each in engine.stepper.optimizer.state.values() for state in each.values()]
    tensors: list[torch.Tensor] = [*engine.policy.network.parameters(), *states]
    size: int = sum(tensor.nbytes for tensor in tensors)
    return size / GIB


def median_seconds(engine: LocalEngine, work: Callable[[], object], repeats: int) -> float:
    seconds = []
    for _ in range(repeats + 1):
        start = engine.clock()
        work()
        seconds.append(engine.clock() - start)
    return statistics.median(seconds[1:])


def random_model(shape: str, like: Path, folder: Path) -> Path:
    """A folder with random weights, and the tokenizer of another."""
    hidden, inner, layers, heads, keys, words = map(int, shape.split(","))
    tokenizer = AutoTokenizer.from_pretrained(like)
    config = Qwen2Config(
        vocab_size=words,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=keys,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    network: Any = Qwen2ForCausalLM(config)
    network.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


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
    trajectories = [t for group in given.groups for t in group.trajectories]
    lengths = np.array([len(trajectory.tokens) for trajectory in trajectories])
    answers = sum(int(trajectory.loss_mask.sum()) for trajectory in trajectories)
    head = _work(engine.policy.base.get_output_embeddings().weight) * answers
    linears = [m for m in engine.policy.backbone.modules() if isinstance(m, torch.nn.Linear)]
    weights = sum(_work(module.weight) for module in linears) * int(lengths.sum())
    pairs = 6 * config.num_hidden_layers * config.hidden_size * np.square(lengths).sum()
    return float(weights + head + pairs)


def _work(weight: torch.Tensor) -> int:
    return (6 if weight.requires_grad else 4) * weight.numel()


def measure_update(engine: LocalEngine, given: Batch, chosen: argparse.Namespace) -> None:
    spent = median_seconds(engine, lambda: engine.update(given), chosen.repeats)
    total = sum(len(t.tokens) for group in given.groups for t in group.trajectories)
    reached = flops(engine, given) / spent / 1e12
    device = engine.policy.device
    share = f": {reached / chosen.peak:.1%} of {chosen.peak:g}" if device.type == "cuda" else ""
    print(f"{device}: {total:,} tokens in {spent:.3f} s, {total / spent:,.0f}/s")
    print(f"{reached:.2f} TFLOP/s{share}")
    engine.stepper.optimizer.zero_grad()
    more = peak_memory(device, lambda: engine.update(given))
    print(f"peak memory {held(engine) + more:.2f} GiB: {held(engine):.2f} of weights and optimizer")


def measure_head(engine: LocalEngine, chosen: argparse.Namespace) -> None:
    """Log-probabilities and their gradients, of random hidden states."""
    policy, count = engine.policy, chosen.tokens
    head = policy.head_at(1.0)
    words, width = head.weight.shape
    hidden = torch.randn(count, width, device=policy.device).requires_grad_()
    positions, tokens = np.arange(count), np.random.default_rng(0).integers(0, words, count)

    def plain() -> torch.Tensor:
        with policy.autocast():
            logits = torch.nn.functional.linear(hidden, head.weight, head.bias).float()
        return torch.log_softmax(logits, 1)[positions, tokens]

    def chunked() -> torch.Tensor:
        return chosen_logprobs(head, hidden, positions, tokens)

    print(f"head, {count:,} positions, {words:,} words:")
    for way in (plain, chunked):

        def work(way: Callable[[], torch.Tensor] = way) -> None:
            way().sum().backward()  # type: ignore[no-untyped-call]
            hidden.grad = head.weight.grad = None

        more = peak_memory(policy.device, work)
        seconds = median_seconds(engine, work, chosen.repeats)
        print(f"  {way.__name__:8} {seconds:.3f} s, {more:.2f} GiB beside weight and hidden states")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--shape", help="random weights of this shape")
    parser.add_argument("--lora", type=int, default=0)
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
        lora=chosen.lora,
        checkpointing=chosen.checkpointing,
        compile=chosen.compile,
    )
    with tempfile.TemporaryDirectory() as folder:
        if chosen.shape:
            made = random_model(chosen.shape, Path(settings.model), Path(folder))
            settings = replace(settings, model=str(made))
        engine = LocalEngine(settings, build(Arithmetic(prompts=1, heldout=1), 0))
    given = batch(chosen, engine.policy.base.config.vocab_size)
    measure_update(engine, given, chosen)
    measure_head(engine, chosen)


if __name__ == "__main__":
    main()
