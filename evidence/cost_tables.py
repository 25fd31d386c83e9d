"""Tables of costs: sentences, with numbers that benchmarks printed or runs of this folder have."""

import re
from functools import cache
from pathlib import Path

from step_tables import FRESH, LOCAL, QWEN, SMALL, Steps, against_itself, against_uniform

from metis.text import markdown_table

EVIDENCE = Path(__file__).resolve().parent
Row = tuple[str, str, str]

PRINTED = {
    "trl": ("cpu/step", "TRL without skipping:"),
    "trl_skipping": ("cpu/step", "TRL with skipping:"),
    "direct_ratio": ("cpu/step", "direct / uniform:"),
    "direct_judging": ("cpu/step", "METIS direct: judging"),
    "direct_training": ("cpu/step", "METIS direct: judging.*?update"),
    "direct_step": ("cpu/step", "METIS direct: judging.*?step"),
    "reason_ratio": ("cpu/step", "reason / uniform:"),
    "reason_judging": ("cpu/step", "METIS reason: judging"),
    "reason_training": ("cpu/step", "METIS reason: judging.*?update"),
    "reason_step": ("cpu/step", "METIS reason: judging.*?step"),
    "judge_cpu": ("cpu/judge", "ratio"),
    "judge_cpu_bound": ("cpu/judge", "bound"),
    "judge_h200": ("h200/judge", "ratio"),
    "judge_h200_bound": ("h200/judge", "bound"),
    "bound_cpu": ("cpu/judge_bound", "ratio"),
    "bound_h200": ("h200/judge_bound", "ratio"),
    "selection": ("cpu/selection", "ratio"),
    "selection_milliseconds": ("cpu/selection", "10,000 prompts,"),
    "selection_step": ("cpu/selection", "METIS.*?ratio"),
    "utilised": ("h200/update", "TFLOP/s:"),
    "utilised_compiled": ("h200/update", "--compile.*?TFLOP/s:"),
    "peak": ("h200/update", "peak memory"),
    "peak_compiled": ("h200/update", "--compile.*?peak memory"),
    "peak_adapters": ("h200/update", "--lora.*?peak memory"),
    "own_small": ("h200/generation", "own / vllm ="),
    "own_large": ("h200/generation", "128x1024 +own / vllm ="),
    "survey": ("h200/survey", "at once:"),
    "whole_readout": ("h200/whole_step", "readout .*?nan"),
    "whole_direct": ("h200/whole_step", "\ndirect .*?nan"),
    "whole_quarter": ("h200/whole_step", "direct-quarter .*?nan"),
    "prepare_seconds": ("cpu/prepare", "prepared in this folder\n"),
    "prepare_megabytes": ("cpu/prepare", "peak memory"),
    "math_dapo": ("cpu/math_reward", "DAPO.*?ratio"),
    "math_math": ("cpu/math_reward", "MATH:.*?ratio"),
    "sandbox_io": ("cpu/sandbox", "stdout +25.*?test:"),
    "sandbox_calls": ("cpu/sandbox", "calls +25.*?test:"),
    "sandbox_asserts": ("cpu/sandbox", "elsewhere +25.*?test:"),
    "sandbox_io_one": ("cpu/sandbox", "stdout +1 tests.*?test:"),
    "sandbox_calls_one": ("cpu/sandbox", "calls +1 tests.*?test:"),
    "sandbox_asserts_one": ("cpu/sandbox", "elsewhere +1 tests.*?test:"),
    "code_step": ("cpu/code_step", "ratio"),
    "code_rollouts": ("cpu/code_step", "\n"),
    "bfcl": ("cpu/bfcl", "ratio"),
    "bfcl_checked": ("cpu/bfcl", "checker .*?ratio"),
    "view_slowest": ("cpu/view", "slowest page of answers"),
    "view_built": ("cpu/view", "built in"),
    "transcripts_size": ("cpu/transcripts", "200 steps:"),
    "transcripts_writing": ("cpu/transcripts", "writing:"),
    "transcripts_all": ("cpu/transcripts", "reading all:"),
    "transcripts_one": ("cpu/transcripts", "one group:"),
}
"""Numbers by the file of `benchmarks-` that they are in, and the pattern that comes before them."""

ON_MATH = "verl, H200, Qwen2.5-Coder-1.5B-Instruct on MATH: "
ON_SUMS = "SmolLM2-135M on addition: "
JUDGED = (
    (
        f"{ON_MATH}`judge=reason`, replies of {{metis.reply:.0f}} tokens",
        Steps(f"{QWEN}/reason", "", last=8),
        Steps(f"{QWEN}/uniform", "", last=8),
    ),
    (
        "the same with `judge=direct judge.scale=passes`",
        Steps(f"{QWEN}/direct", "", last=8),
        Steps(f"{QWEN}/uniform", "", last=8),
    ),
    (
        "that, with `judge.train=0.25`",
        Steps(f"{QWEN}/direct-quarter", "", last=8),
        Steps(f"{QWEN}/uniform", "", last=8),
    ),
    (
        "that, with `judge.replay=0`",
        Steps(f"{FRESH}/direct-quarter-fresh", "", last=8),
        Steps(f"{FRESH}/uniform", "", last=8),
    ),
    (
        f"verl, H200, {ON_SUMS}`direct`, `passes`, `judge.train=0.25`",
        Steps(f"{SMALL}/direct-quarter", ""),
        Steps(f"{SMALL}/uniform", ""),
    ),
    (
        f"local engine with vLLM, H200, {ON_SUMS}`direct`, before replay",
        LOCAL[1],
        LOCAL[0],
    ),
)
"""METIS in words, its steps, and those of uniform sampling."""

SELECTION = (
    (
        "selection",
        "drawing and ranking 2,048 candidates and saving the state, with a training set of a "
        "million prompts, relative to ten thousand; no model: replies and rewards are random",
        "{selection:.2f} ({selection_milliseconds:.0f} ms per step); with writing and reading of "
        "judgments {selection_step:.2f}",
    ),
    (
        "judge",
        "speed-up of scoring judge prompts with a shared prefix, over full sequences: about 376 "
        "shared tokens, 26 to 27 more per candidate",
        "{judge_cpu:.1f} with 64 candidates on the CPU (of at most {judge_cpu_bound:.1f}, by "
        "tokens), {judge_h200:.1f} with 512 on the H200 (of at most {judge_h200_bound:.1f})",
    ),
    (
        "judge_bound",
        "update with the bound on the judge's gradient (`judge.share`), relative to one without, "
        "on the CPU: 8 answers, 6 judgments",
        "{bound_cpu:.2f}",
    ),
    (
        "judge_bound",
        "the same on the H200: 128 answers of 16 tokens, 80 judgments",
        "{bound_h200:.2f}",
    ),
)

STEPS = (
    (
        "step",
        "GRPO step of the local engine, relative to TRL's on the same work, on the CPU: 16 answers "
        "of 32 tokens, median of five pairs of steps",
        "{trl:.2f}; {trl_skipping:.2f} when half of the groups have no advantage",
    ),
    (
        "update",
        "model FLOPs utilisation (MFU) in the update of Qwen2.5-Coder-1.5B-Instruct on random "
        "answers of 512 tokens on average, of the 989 TFLOP/s of an H200 in bfloat16; and its peak "
        "memory at `engine.tokens=16384`",
        "{utilised:.0f}%, {peak:.0f} GiB; {utilised_compiled:.0f}%, {peak_compiled:.0f} GiB with "
        "`engine.compile=true`",
    ),
    (
        "update",
        "peak memory of a quarter of these answers, in full passes, with `engine.lora=16 "
        "engine.checkpointing=true`",
        "{peak_adapters:.1f} GiB",
    ),
    (
        "generation",
        "generation without vLLM, relative to vLLM's time, on an H200, 128 answers at once: of 160 "
        "tokens by SmolLM2-135M, of 1,024 by Qwen2.5-Coder-1.5B-Instruct",
        "{own_small:.2f}, {own_large:.2f}",
    ),
    (
        "whole_step",
        "METIS step, relative to itself without selection and judging: local engine without vLLM, "
        "H200, Qwen2.5-Coder-1.5B-Instruct with LoRA on MATH, 16 prompts × 8 rollouts from 128 "
        "candidates, ten steps",
        "{whole_readout:.2f} `readout`; {whole_direct:.2f} `direct`, `scale=passes`; "
        "{whole_quarter:.2f} that with `judge.train=0.25`",
    ),
    (
        "survey",
        "seconds of 200 prompts × 8 rollouts of 160 tokens each by SmolLM2-135M on an H200 without "
        "vLLM, saved as they end; loading is not counted",
        "{survey:.1f}",
    ),
)

DATA = (
    (
        "prepare",
        "time and memory to prepare a file like DAPO-Math-17k on the Hub, 1.8 million rows",
        "{prepare_seconds:.0f} s of CPU time, {prepare_megabytes:.0f} MB",
    ),
    (
        "math_reward",
        "speed-up of scoring math answers, over math-verify alone; 2,000 constructed responses per "
        "set, half of them right, two cores",
        "{math_dapo:.0f} on DAPO, {math_math:.1f} on MATH",
    ),
    (
        "sandbox",
        "time of a test in the sandbox, relative to the same driver without isolation; programs "
        "with 25 tests, and with one, on two cores",
        "{sandbox_io:.2f} and {sandbox_io_one:.2f} (stdin and stdout), {sandbox_calls:.2f} and "
        "{sandbox_calls_one:.2f} (function calls), {sandbox_asserts:.2f} and "
        "{sandbox_asserts_one:.2f} (asserts in another sandbox)",
    ),
    (
        "code_step",
        "step with programs run in the sandbox during generation, relative to the same step with "
        "cached rewards: {code_rollouts:.0f} rollouts of up to 64 tokens, two cores",
        "{code_step:.2f} (median of six alternating pairs of steps)",
    ),
    (
        "bfcl",
        "function-calling episodes per second on two cores, relative to the official executor's "
        "calls alone, and to those with its checker",
        "{bfcl:.2f} and {bfcl_checked:.2f}",
    ),
)

LOOKING = (
    (
        "view",
        "seconds until `metis view` has found a page of answers, the slowest of eleven searches "
        "and filters: 100,000 rollouts, one core; and until their index is built, once",
        "{view_slowest:.2f}, and {view_built:.0f}",
    ),
)

KEEPING = (
    (
        "transcripts",
        "200 steps of 128 rollouts of 700 tokens, made-up words with Zipf's frequencies: size of "
        "their transcripts, CPU time to write a step's, to read all, and one group",
        "{transcripts_size:.0f} MB, {transcripts_writing:.0f} ms, {transcripts_all:.1f} s, "
        "{transcripts_one:.1f} ms",
    ),
)


def in_short() -> str:
    """Seconds of a METIS step, divided by those of a uniform step and of its own without judging.

    The two differ where METIS chose prompts with answers of another length, and by what differs
    between two runs for other reasons.
    """
    heads = (
        "METIS step",
        "tokens per answer",
        "ratio to uniform",
        "ratio to itself without judging",
    )
    rows = [list(heads)]
    for words, metis, uniform in JUDGED:
        tokens = f"{metis.answer:.0f}, uniform {uniform.answer:.0f}"
        ratios = against_uniform(metis, uniform), against_itself(metis)
        rows.append([words.format(metis=metis), tokens, *ratios])
    for mode in ("direct", "reason"):
        step, judging, training, ratio = (
            numbers()[f"{mode}_{name}"] for name in ("step", "judging", "training", "ratio")
        )
        itself = step / (step - judging - training)
        words = f"local engine, two CPU cores, SmolLM2-135M: `{mode}`"
        rows.append([words, "32, both", f"{ratio:.2f}", f"{itself:.2f}"])
    return markdown_table(rows)


def measured(rows: tuple[Row, ...], compared: str = "compared") -> str:
    """A table of docs/costs.md."""
    named = [(_script(script), sentence, value) for script, sentence, value in rows]
    return _table(("script", compared, "measured"), named)


@cache
def numbers() -> dict[str, float]:
    """Every number by its name in the sentences."""
    return {name: printed(*place) for name, place in PRINTED.items()}


def printed(file: str, before: str) -> float:
    """The number that follows a pattern, at its first place in a benchmark's output."""
    path = EVIDENCE / f"benchmarks-{file}.txt"
    match = re.search(rf"{before}\s*([\d.]+)", path.read_text("utf-8"), re.DOTALL)
    if match is None:
        raise LookupError(f"{path} has no number after {before!r}")
    return float(match[1])


def _script(name: str) -> str:
    return f"`benchmarks/{name}.py`"


def _table(head: Row, rows: list[Row]) -> str:
    """Not aligned, as tables of numbers are: the sentences are long."""
    lines = [" | ".join(row) for row in (head, *rows)]
    filled = [f"| {line} |".format_map(numbers()) for line in lines]
    return "\n".join([filled[0], "|---|---|---|", *filled[1:]]) + "\n"
