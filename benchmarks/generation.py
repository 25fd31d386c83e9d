"""Generation without vLLM against vLLM and transformers' own `generate`: seconds, and their ratio.

    python benchmarks/generation.py [--model FOLDER] [--shapes 128x160,128x1024]
                                    [--ways own,vllm,static,batching] [--lora 0] [--repeats 3]

A shape is rows x tokens: 8 answers to each of rows/8 random prompts, every answer of exactly so
many tokens at temperature 1. Each way runs in a process of its own, twice to warm up (compilation,
CUDA graphs), then --repeats times, of which the median counts; loading is not counted. `static` is
transformers' `generate` with a static cache, compiled; `batching` is its continuous batching.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from metis.core import Sampling
from metis.engines import model_files
from metis.engines.local.generate.sampling import OwnSampler
from metis.engines.local.generate.vllm import VllmSampler, require_vllm
from metis.engines.local.model.policy import Policy
from metis.engines.local.settings import LocalSettings

COPIES = 8
WARM_UPS = 2
Generate = Callable[[list[list[int]], int], object]


def prompts_of(policy: Policy, rows: int, length: int) -> list[list[int]]:
    draw = np.random.default_rng(0)
    size = policy.base.config.get_text_config().vocab_size
    lengths = draw.integers(length // 2, length * 3 // 2, rows // COPIES)
    return [draw.integers(0, size, each).tolist() for each in lengths]


def own(policy: Policy, settings: LocalSettings) -> Generate:
    sampler = OwnSampler(policy)
    policy.stops = set()
    generator = torch.Generator(policy.device).manual_seed(0)

    def generate(prompts: list[list[int]], tokens: int) -> object:
        return list(sampler.sample(prompts, COPIES, Sampling(tokens, 1.0), generator))

    return generate


def vllm(policy: Policy, settings: LocalSettings) -> Generate:
    from vllm import SamplingParams, TokensPrompt

    sampler = VllmSampler(policy, settings)

    def generate(prompts: list[list[int]], tokens: int) -> object:
        sampler.llm.reset_prefix_cache()
        asked = [TokensPrompt(prompt_token_ids=prompt) for prompt in prompts]
        parameters = SamplingParams(
            n=COPIES, max_tokens=tokens, ignore_eos=True, detokenize=False, logprobs=0
        )
        return sampler.llm.generate(asked, parameters, use_tqdm=False)

    return generate


def static(policy: Policy, settings: LocalSettings) -> Generate:
    network = _in_one_dtype(policy)

    def generate(prompts: list[list[int]], tokens: int) -> object:
        repeated = [prompt for prompt in prompts for _ in range(COPIES)]
        width = max(map(len, repeated))
        ids = torch.zeros(len(repeated), width, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(repeated):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        return network.generate(
            ids.to(policy.device),
            attention_mask=mask.to(policy.device),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=True,
            top_k=0,
            cache_implementation="static",
        )

    return generate


def batching(policy: Policy, settings: LocalSettings) -> Generate:
    from transformers import GenerationConfig

    network = _in_one_dtype(policy)

    def generate(prompts: list[list[int]], tokens: int) -> object:
        config: Any = GenerationConfig
        given = config(max_new_tokens=tokens, do_sample=True, top_k=0, eos_token_id=-1)
        repeated = [prompt for prompt in prompts for _ in range(COPIES)]
        return network.generate_batch(repeated, generation_config=given, progress_bar=False)

    return generate


def _in_one_dtype(policy: Policy) -> Any:
    if policy.adapted:
        policy.network.merge_adapter()
    return policy.base.to(policy.dtype)


WAYS: dict[str, Callable[[Policy, LocalSettings], Generate]] = {
    "own": own,
    "vllm": vllm,
    "static": static,
    "batching": batching,
}


def synchronised(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


@torch.no_grad()
def measure(chosen: argparse.Namespace) -> None:
    """One way, in this process: a line of JSON for each shape."""
    settings = LocalSettings(
        model=chosen.model,
        device=chosen.device,
        lora=chosen.lora,
        generation="vllm" if chosen.way == "vllm" else "transformers",
        vllm_memory=chosen.vllm_memory,
    )
    require_vllm(settings)
    policy = Policy(model_files.model(settings.model), settings)
    generate = WAYS[chosen.way](policy, settings)
    for shape in chosen.shapes.split(","):
        rows, tokens = map(int, shape.split("x"))
        prompts = prompts_of(policy, rows, chosen.prompt)
        seconds = []
        for _ in range(WARM_UPS + chosen.repeats):
            before = synchronised(policy.device)
            generate(prompts, tokens)
            seconds.append(synchronised(policy.device) - before)
        line = {"shape": shape, "way": chosen.way, "first": seconds[0]}
        counted = seconds[WARM_UPS:]
        line |= {"median": statistics.median(counted), "least": min(counted), "most": max(counted)}
        print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--shapes", default="128x160,128x1024")
    parser.add_argument("--ways", default="own,vllm")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--prompt", type=int, default=100, help="mean tokens of a prompt")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--lora", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--vllm-memory", type=float, default=0.6)
    chosen = parser.parse_args()
    if chosen.way:
        measure(chosen)
        return
    found: dict[str, dict[str, float]] = {}
    print(f"{'shape':>10} {'way':>9} {'seconds':>9} {'ms/token':>9} {'first':>7}  / vllm")
    for way in chosen.ways.split(","):
        words = [sys.executable, __file__, *sys.argv[1:], "--way", way]
        run = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
        for text in run.stdout.splitlines():
            if not text.startswith("{"):
                continue
            line = json.loads(text)
            shape, seconds = line["shape"], line["median"]
            found.setdefault(shape, {})[way] = seconds
            each = 1000 * seconds / int(shape.split("x")[1])
            row = f"{shape:>10} {way:>9} {seconds:9.3f} {each:9.2f} {line['first']:7.1f}"
            print(f"{row}  {line['least']:.3f} to {line['most']:.3f}", flush=True)
        if run.returncode:
            print(f"{way} ended with exit code {run.returncode}", flush=True)
    for shape, ways in found.items():
        for way, seconds in ways.items():
            if way != "vllm" and "vllm" in ways:
                print(f"{shape:>10} {way:>9} / vllm = {seconds / ways['vllm']:.2f}")


if __name__ == "__main__":
    main()
