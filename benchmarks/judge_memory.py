"""Memory of `metis judge` on a long file: bytes per prompt, from round to round.

    python benchmarks/judge_memory.py [--prompts 100000] [--model FOLDER] [--killed]

Ranks made-up additions with a model of two layers and random weights, and prints the resident
memory after each tenth of the prompts, the slope of a line through all rounds after the first
tenth, the peak, and prompts per second. With `--killed` it ranks them again, is stopped in the
middle, goes on, and compares the files that both made. Reads /proc, so Linux only.
"""

import argparse
import hashlib
import json
import random
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from metis.cli import main as metis
from metis.rankings.predictions import RankingFolder

ALLOWED = 100.0
"""Bytes per prompt: the ranking needs 40 of them in the end, for numbers by which it is sorted."""
MADE = ("ranking.jsonl", "predictions.jsonl", "judge.html")
CHAT = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"


def score(reply: str, reference: str, row: dict[str, Any]) -> float:
    """Sums of few digits are right more often, whatever the reply."""
    draw = int(hashlib.sha256(reply.encode()).hexdigest(), 16) % 100 / 100
    return float(draw < 1.5 - 0.25 * len(reference))


def save_model(folder: Path) -> None:
    """A Llama of two layers and random weights, whose tokens are bytes."""
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytewise = Tokenizer(models.BPE(vocab={s: i for i, s in enumerate(symbols)}, merges=[]))
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    tokenizer: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bytewise, eos_token="<|end|>"
    )
    tokenizer.chat_template = CHAT
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.2,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        LlamaForCausalLM(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def write_prompts(path: Path, count: int) -> None:
    draw = random.Random(0)
    with path.open("w") as file:
        for _ in range(count):
            a, b = (draw.randrange(10 ** draw.randint(1, 6)) for _ in range(2))
            file.write(json.dumps({"prompt": f"What is {a} + {b}?", "answer": str(a + b)}) + "\n")


class Watch:
    """Notes time and memory after each round, and may stop the process after one."""

    def __init__(self, stop_after: int = sys.maxsize) -> None:
        self.stop_after = stop_after
        self.prompts = [0]
        self.memory = [resident()]
        self.times = [time.monotonic()]
        self.append = RankingFolder.append

    def __enter__(self) -> "Watch":
        watch, append = self, self.append

        def noted(folder: RankingFolder, log: str, rows: Iterable[Mapping[str, Any]]) -> None:
            count = 0

            def counted() -> Iterator[Mapping[str, Any]]:
                nonlocal count
                for row in rows:
                    count += 1
                    yield row

            append(folder, log, counted())
            watch.prompts.append(watch.prompts[-1] + count)
            watch.memory.append(resident())
            watch.times.append(time.monotonic())
            if watch.prompts[-1] >= watch.stop_after:
                raise KeyboardInterrupt

        RankingFolder.append = noted  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *_: object) -> None:
        RankingFolder.append = self.append  # type: ignore[method-assign]


def resident() -> float:
    """Bytes of resident memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return float(pages * resource.getpagesize())


def report(watch: Watch) -> float:
    """Print what was noted; returns the slope in bytes per prompt."""
    prompts, memory = np.array(watch.prompts), np.array(watch.memory)
    print(f"{'prompts':>10} {'memory, MB':>12}")
    for tenth in range(1, 11):
        place = int(np.searchsorted(prompts, prompts[-1] * tenth / 10))
        print(f"{prompts[place]:>10,} {memory[place] / 1e6:>12.1f}")
    later = prompts >= prompts[-1] / 10
    slope = float(np.polyfit(prompts[later], memory[later], 1)[0])
    seconds = watch.times[-1] - watch.times[1]
    peak = 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"slope {slope:.1f} bytes per prompt, peak {peak / 1e6:.1f} MB")
    print(f"{(prompts[-1] - prompts[1]) / max(seconds, 1e-9):,.0f} prompts per second")
    return slope


def same_when_killed(words: list[str], folder: Path, prompts: int) -> None:
    """Rank again, stopped in the middle; the files must be those of the first time."""
    with Watch(prompts // 2):
        assert metis([*words, "--out", str(folder / "killed")]) == 130
    assert metis([*words, "--out", str(folder / "killed")]) == 0
    for name in MADE:
        first, again = ((folder / out / name).read_bytes() for out in ("straight", "killed"))
        if first != again:
            raise SystemExit(f"{name} differs after a kill")
    print(f"killed in the middle and resumed: the same bytes ({', '.join(MADE)})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=100_000)
    parser.add_argument("--model", type=Path, help="a model folder; by default a tiny one is made")
    parser.add_argument("--killed", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model = chosen.model or folder / "model"
        if chosen.model is None:
            save_model(model)
        write_prompts(folder / "prompts.jsonl", chosen.prompts)
        words = ["judge", str(model), str(folder / "prompts.jsonl"), "--calibrate", "64"]
        words += [f"task.reward={Path(__file__).resolve()}:score", "task.rewards=binary"]
        words += ["task.instruction=", "engine.max_tokens=8"]
        with Watch() as watch:
            assert metis([*words, "--out", str(folder / "straight")]) == 0
        slope = report(watch)
        if chosen.killed:
            same_when_killed(words, folder, chosen.prompts)
    if slope > ALLOWED:
        raise SystemExit(f"above {ALLOWED:.0f} bytes per prompt")


if __name__ == "__main__":
    main()
