"""Shared-prefix scoring of judge prompts against one whole row per candidate.

    python benchmarks/judge.py [--model smollm2-135m] [--candidates 64] [--device auto]

With a prefix of P tokens, shared by all judge prompts, and c tokens of candidate and choices, the
best a shared prefix can do is (P + c) / c. Both ways compute the same eleven log-probabilities; the
whole rows are batched too, and hold the choices as the same tree. Prints tokens, seconds, ratio
and its share of the bound.
"""

import argparse
import statistics
import time

import numpy as np

from metis.core import Exemplar, Prompt
from metis.curricula.judges.prompt import turns
from metis.curricula.judges.scale import VARIANCE
from metis.engines import model_files
from metis.engines.local.model.forward import no_grad_logprobs
from metis.engines.local.model.policy import Policy
from metis.engines.local.settings import LocalSettings
from metis.engines.tokens.choices import ChoiceTree
from metis.engines.tokens.encoding import encode_chats
from metis.engines.tokens.packing import PrefixGroup, shareable


def texts(count: int) -> list[str]:
    draw = np.random.default_rng(0)
    return [f"What is {a} + {b}?" for a, b in draw.integers(10, 1000, (count, 2))]


def seconds(
    policy: Policy, bundle: PrefixGroup, budget: int, repeats: int
) -> tuple[float, np.ndarray]:
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        values = no_grad_logprobs(policy, bundle, budget)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:]), values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--candidates", type=int, default=64)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tokens", type=int, default=16384, help="padded tokens in one pass")
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    policy = Policy(
        model_files.model(chosen.model), LocalSettings(model=chosen.model, device=chosen.device)
    )
    shown = zip(texts(3), (0.0, 0.109, 0.25), strict=True)
    examples = [Exemplar(Prompt(text, text), v, v, 0) for text, v in shown]
    start = time.perf_counter()
    contexts = encode_chats(policy, turns(texts(chosen.candidates), examples))
    encoding = time.perf_counter() - start
    tree = ChoiceTree.of([policy.encode_reply(choice) for choice in VARIANCE.choices])
    contexts.sort(key=len)
    starts = [len(context) - 1 for context in contexts]
    prefix = shareable(contexts, starts, policy.layout.aligned)
    rows = [tree.row(context[prefix:]) for context in contexts]
    own = float(np.mean([len(row.tokens) for row in rows]))
    shared = PrefixGroup(contexts[0][:prefix], rows, policy.layout)
    whole = PrefixGroup([], [tree.row(context) for context in contexts])
    fast, values = seconds(policy, shared, chosen.tokens, chosen.repeats)
    slow, reference = seconds(policy, whole, chosen.tokens, chosen.repeats)
    bound = (prefix + own) / own
    print(f"device {policy.device}, {chosen.candidates} candidates, P = {prefix}, c = {own:.1f}")
    print(f"writing and encoding the prompts {encoding:.3f} s")
    print(f"shared prefix {fast:.3f} s, whole rows {slow:.3f} s: ratio {slow / fast:.2f}")
    print(f"bound {bound:.2f}: reached {slow / fast / bound:.2f} of it")
    print(f"largest difference of a log-probability {np.abs(values - reference).max():.1e}")


if __name__ == "__main__":
    main()
