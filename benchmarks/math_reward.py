"""Answers scored per second on two cores, against calling math-verify alone on whole responses.

    python benchmarks/math_reward.py --data FOLDER [--count 2000] [--responses FILE.jsonl]

FOLDER holds dapo_math_17k.jsonl.gz (problem, answer) and math_train.jsonl.gz (problem, solution,
answer). With --responses, those of a model are scored: one JSON object per line, with `response`
and `answer`. Without, they are made: the gold solution of a MATH problem (for DAPO, which has none,
that of some MATH problem), its last box filled with the reference answer in --right of the cases, a
quarter of these rewritten (a unit, a name, \\dfrac, spaces, a sum), and else with the answer to
another problem of the same kind. Problems are drawn without repetition, so that little is gained by
remembering opinions.

Both sides get two worker processes, warm. Then hostile answers are mixed in: what they cost, and
whether all other scores stay as they were.
"""

import argparse
import logging
import multiprocessing
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from metis.tasks.file import read_rows
from metis.tasks.math.answers.equality import final_answer, score, settle
from metis.tasks.math.answers.verifier import Verifier

HOSTILE = {
    "a power tower": "9^{9^{9^9}}",
    "a tower of factorials": "((((9!)!)!)!)!",
    "100 kB of nesting": "{" * 50_000 + "}" * 50_000,
    "a megabyte of digits": "7" * 1_000_000,
}
CORES = 2
CHUNK = 10
"""Responses handed over at a time, on both sides."""


def rewritten(answer: str, rng: random.Random) -> str:
    """The same answer, written in another way."""
    if answer.lstrip("-").isdigit():
        forms = [f"{answer}.0", f"{answer}\\text{{ units}}", f"{int(answer) - 1} + 1"]
    else:
        forms = [answer.replace("\\frac", "\\dfrac"), f" {answer} ", f"{answer} + 0"]
    forms.append(f"x = {answer}")
    return rng.choice(forms)


def respond(solution: str, answer: str) -> str:
    """A solution that ends in this answer."""
    return f"{solution.rpartition('boxed')[0].removesuffix(chr(92))}\\boxed{{{answer}}}$."


def make(rows: list[Any], solutions: list[str], count: int, right: float) -> list[tuple[str, str]]:
    """Responses with their references."""
    rng = random.Random(0)
    kinds: dict[str, list[str]] = {}
    for row in rows:
        kinds.setdefault(row.get("type", ""), []).append(row["answer"])
    made = []
    for row in rng.sample(rows, count):
        answer = row["answer"]
        if rng.random() >= right:
            answer = rng.choice(kinds[row.get("type", "")])
        elif rng.random() < 0.25:
            answer = rewritten(answer, rng)
        made.append((respond(row.get("solution") or rng.choice(solutions), answer), row["answer"]))
    return made


def alone(pair: tuple[str, str]) -> bool:
    """math-verify as it is usually called: on the whole response, with its own time limits."""
    from math_verify import parse, verify

    logging.disable(logging.CRITICAL)
    return bool(verify(parse(f"${pair[1]}$"), parse(pair[0])))


def measure_alone(pairs: list[tuple[str, str]]) -> tuple[float, list[bool]]:
    with multiprocessing.get_context("spawn").Pool(CORES) as pool:
        pool.map(alone, pairs[: 2 * CHUNK], chunksize=CHUNK)
        start = time.perf_counter()
        verdicts = pool.map(alone, pairs, chunksize=CHUNK)
        return time.perf_counter() - start, verdicts


def measure_ours(pairs: list[tuple[str, str]]) -> tuple[float, list[float]]:
    with Verifier(workers=CORES) as verifier, ThreadPoolExecutor(16) as threads:
        list(threads.map(verifier.same, ["x + x"] * CORES, [f"{n}x" for n in range(CORES)]))
        start = time.perf_counter()
        chunks = [pairs[at : at + CHUNK] for at in range(0, len(pairs), CHUNK)]
        scored = threads.map(
            lambda chunk: [score(response, wanted, verifier) for response, wanted in chunk], chunks
        )
        scores = [value for chunk in scored for value in chunk]
        return time.perf_counter() - start, scores


def report(name: str, pairs: list[tuple[str, str]]) -> None:
    theirs, verdicts = measure_alone(pairs)
    ours, scores = measure_ours(pairs)
    answers = [(final_answer(response) or "", wanted) for response, wanted in pairs]
    asked = sum(settle(*pair) is None for pair in answers) / len(pairs)
    agreed = sum(a == b for a, b in zip(verdicts, scores, strict=True)) / len(pairs)
    print(f"{name}: {len(pairs)} responses, {sum(scores) / len(pairs):.0%} right")
    print(f"  math-verify alone  {len(pairs) / theirs:9,.0f} answers/s")
    print(f"  ours               {len(pairs) / ours:9,.0f} answers/s: ratio {theirs / ours:.1f}")
    print(f"  {asked:.1%} were asked of math-verify; the two agree on {agreed:.1%}")
    references = [wanted for _, wanted in pairs[: len(HOSTILE)]]
    boxes = [f"So \\boxed{{{answer}}}" for answer in HOSTILE.values()]
    hostile = list(zip(boxes, references, strict=True))
    mixed, again = measure_ours([*hostile, *pairs])
    same = again[len(hostile) :] == scores and not any(again[: len(hostile)])
    print(f"  with {', '.join(HOSTILE)}: {mixed - ours:+.1f} s; ", end="")
    print("they earn 0, all others as before" if same else "SCORES CHANGED")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--responses", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--right", type=float, default=0.5)
    chosen = parser.parse_args()
    if chosen.responses:
        rows = list(read_rows(str(chosen.responses), "--responses"))
        report(chosen.responses.name, [(row["response"], row["answer"]) for row in rows])
        return
    math, dapo = (
        list(read_rows(str(chosen.data / name), "--data"))
        for name in ("math_train.jsonl.gz", "dapo_math_17k.jsonl.gz")
    )
    solutions = [row["solution"] for row in math]
    report("DAPO-17k", make(dapo, solutions, chosen.count, chosen.right))
    report("MATH", make(math, solutions, chosen.count, chosen.right))


if __name__ == "__main__":
    main()
