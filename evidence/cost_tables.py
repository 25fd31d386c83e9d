"""Tables of costs: sentences, with numbers that benchmarks printed or runs of this folder have."""

import re
from functools import cache
from pathlib import Path

from step_tables import EARLIER, FRESH, QWEN, SMALL, Steps, against_itself, against_uniform

from metis.report.curves import read

EVIDENCE = Path(__file__).resolve().parent
Row = tuple[str, str, str]

PRINTED = {
    "trl": ("cpu/step", "TRL without skipping:"),
    "trl_skipping": ("cpu/step", "TRL with skipping:"),
    "step_direct": ("cpu/step", "direct / uniform:"),
    "step_reason": ("cpu/step", "reason / uniform:"),
    "judge_cpu": ("cpu/judge", "ratio"),
    "judge_cpu_reached": ("cpu/judge", "reached"),
    "judge_h200": ("h200/judge", "ratio"),
    "judge_h200_reached": ("h200/judge", "reached"),
    "bound_cpu": ("cpu/judge_bound", "ratio"),
    "bound_h200": ("h200/judge_bound", "ratio"),
    "selection": ("cpu/selection", "ratio"),
    "selection_milliseconds": ("cpu/selection", "10,000 prompts,"),
    "selection_step": ("cpu/selection", "METIS.*?ratio"),
    "requests": ("cpu/verl_requests", "ratio"),
    "utilised": ("h200/update", "TFLOP/s:"),
    "utilised_compiled": ("h200/update", "--compile.*?TFLOP/s:"),
    "prepare_seconds": ("cpu/prepare", "prepared in this folder\n"),
    "prepare_megabytes": ("cpu/prepare", "peak memory"),
    "math_dapo": ("cpu/math_reward", "DAPO.*?ratio"),
    "math_math": ("cpu/math_reward", "MATH:.*?ratio"),
    "sandbox_io": ("cpu/sandbox", "stdout +25.*?test:"),
    "sandbox_calls": ("cpu/sandbox", "calls +25.*?test:"),
    "sandbox_asserts": ("cpu/sandbox", "elsewhere +25.*?test:"),
    "code_step": ("cpu/code_step", "ratio"),
    "code_rollouts": ("cpu/code_step", "\n"),
    "bfcl": ("cpu/bfcl", "ratio"),
    "bfcl_checked": ("cpu/bfcl", "checker .*?ratio"),
    "view_text": ("cpu/view", "by text"),
    "view_category": ("cpu/view", "by category"),
    "view_outcome": ("cpu/view", "by outcome"),
    "view_reason": ("cpu/view", "by reason"),
}
"""Numbers by the file of `benchmarks-` that they are in, and the pattern that comes before them."""

SHORT = (
    (
        "METIS step on verl, against the same step without judging (H200, Qwen 1.5B on MATH): "
        "judgments sampled (`judge.mode=reason`)",
        "{verl_reason:.2f}",
        "verl_step",
    ),
    (
        "the same, judgments scored (`judge.mode=direct judge.scale=passes`)",
        "{verl_direct:.2f}",
        "verl_step",
    ),
    (
        "the same, scored, a quarter of them trained on (`judge.train=0.25`)",
        "{verl_quarter:.2f}",
        "verl_step",
    ),
    (
        "the same, without replay (`replay=0`)",
        "{verl_fresh:.2f}",
        "verl_step",
    ),
    (
        "a quarter trained on, with replay, short answers (SmolLM2-135M, 36 tokens), against a "
        "uniform step",
        "{verl_small:.2f}",
        "verl_step",
    ),
    ("GRPO step, against TRL's on the same work", "{trl:.2f}", "step"),
    (
        "judging with the KV cache of a shared prefix, against full sequences (H200, 512 "
        "candidates)",
        "{judge_h200:.1f} times faster",
        "judge",
    ),
    (
        "selection from a million prompts, against ten thousand",
        "{selection:.2f}",
        "selection",
    ),
    (
        "scoring mathematics (DAPO), against math-verify alone",
        "{math_dapo:.0f} times faster",
        "math_reward",
    ),
    (
        "function-calling episodes per second, against the calls alone by BFCL's executor",
        "{bfcl:.2f} times as many",
        "bfcl",
    ),
    (
        "utilisation of an H200 in the update of a 1.5B model",
        "{utilised:.0f}% of its bfloat16 peak",
        "update",
    ),
    (
        "held-out accuracy before and after the quickstart",
        "{quickstart_before:.3f} → {quickstart_after:.3f}",
        "quickstart",
    ),
)

SELECTION = (
    (
        "selection",
        "selection from a million prompts, against ten thousand",
        "{selection:.2f} ({selection_milliseconds:.0f} ms a step); a whole METIS step "
        "{selection_step:.2f}",
    ),
    (
        "judge",
        "speed-up of scoring judge prompts with a shared prefix, against full sequences; with 376 "
        "shared tokens and 26 to 27 of a candidate's own, at most 15",
        "{judge_cpu:.1f} with 64 candidates on the CPU ({judge_cpu_reached:.2f} of the maximum), "
        "{judge_h200:.1f} with 512 on the H200 ({judge_h200_reached:.2f})",
    ),
    (
        "judge_bound",
        "update with the judge's gradient bounded (`judge.share`), against without, on the CPU: 8 "
        "answers, 6 judgments",
        "{bound_cpu:.2f}",
    ),
    (
        "judge_bound",
        "the same on the H200: 128 answers of 16 tokens, 80 judgments",
        "{bound_h200:.2f}",
    ),
    (
        "verl_requests",
        "judge request sent directly to a verl rollout server, against through verl's load "
        "balancer, on the CPU",
        "{requests:.2f}",
    ),
)

STEPS = (
    (
        "step",
        "GRPO step of the local engine, against TRL's on the same work, on the CPU",
        "{trl:.2f}; {trl_skipping:.2f} when half of the groups have no advantage",
    ),
    (
        "step",
        "METIS step against a uniform one, on the CPU: 16 answers of 32 tokens, 16 candidates, and "
        "in `direct` all outcomes of the last 8 steps replayed",
        "{step_direct:.2f} (`direct`), {step_reason:.2f} (`reason`): answers this short cost less "
        "than judging",
    ),
    (
        "verl_step",
        "METIS step against a uniform one on verl, one H200: 16 prompts of 8 rollouts, 128 "
        "candidates, answers of 36 tokens",
        "{verl_small:.2f} (`direct` with `judge.scale=passes judge.train=0.25`); "
        "{verl_small_reason:.2f} (`reason`, before replay)",
    ),
    (
        "verl_step",
        "the same with Qwen2.5-Coder-1.5B on MATH, against the arm's own step without judging",
        "{verl_direct:.2f} (`direct`), {verl_quarter:.2f} (with `judge.train=0.25`), "
        "{verl_fresh:.2f} (and `replay=0`), {verl_reason:.2f} (`reason`)",
    ),
    (
        "update",
        "model FLOPs utilisation (MFU) in the update of a 1.5B model (the shape of Qwen2.5), of "
        "the 989 TFLOP/s of an H200 in bfloat16",
        "{utilised:.0f}%; {utilised_compiled:.0f}% with `engine.compile=true`",
    ),
)

DATA = (
    (
        "prepare",
        "time and memory to prepare a file like the hub's DAPO-Math-17k, 1.8 million rows",
        "{prepare_seconds:.0f} s of CPU time, {prepare_megabytes:.0f} MB",
    ),
    (
        "math_reward",
        "speed-up of scoring math answers, against math-verify alone",
        "{math_dapo:.0f} on DAPO, {math_math:.1f} on MATH",
    ),
    (
        "sandbox",
        "time of a test in the sandbox, against the same driver without isolation; programs with "
        "25 tests, on two cores",
        "{sandbox_io:.2f} (stdin and stdout), {sandbox_calls:.2f} (function calls), "
        "{sandbox_asserts:.2f} (asserts in another sandbox)",
    ),
    (
        "code_step",
        "step with programs run in the sandbox beside generation, against the same step with their "
        "rewards looked up: {code_rollouts:.0f} rollouts of up to 64 tokens, two cores",
        "{code_step:.2f} (median of six pairs of steps in turn)",
    ),
    (
        "bfcl",
        "function-calling episodes per second on two cores, against the official executor's calls "
        "alone, and with its checker",
        "{bfcl:.2f} and {bfcl_checked:.2f}",
    ),
)

LOOKING = (
    (
        "view",
        "seconds until a filter of `metis view` has drawn its rows: 10,000 groups, 80,000 "
        "candidates, headless Chromium on two cores",
        "{view_text:.2f} (text), {view_category:.2f} (category), {view_outcome:.2f} (outcome), "
        "{view_reason:.2f} (reason)",
    ),
)


def in_short() -> str:
    """README's table: a claim, its number, and the script that prints it."""
    rows = [(claim, value, _script(script)) for claim, value, script in SHORT]
    return _table(("claim", "number", "script"), rows)


def measured(rows: tuple[Row, ...], compared: str = "compared") -> str:
    """A table of docs/costs.md."""
    named = [(_script(script), sentence, value) for script, sentence, value in rows]
    return _table(("script", compared, "measured"), named)


@cache
def numbers() -> dict[str, float]:
    """Every number by its name in the sentences."""
    accuracy = read(EVIDENCE / "quickstart-cpu/seed-0").series("eval/accuracy")[1]
    direct, quarter, reason = (
        against_itself(Steps(f"{QWEN}/{arm}", "", last=8))
        for arm in ("direct", "direct-quarter", "reason")
    )
    return {
        **{name: printed(*place) for name, place in PRINTED.items()},
        "verl_direct": direct,
        "verl_quarter": quarter,
        "verl_reason": reason,
        "verl_fresh": against_itself(Steps(f"{FRESH}/direct-quarter-fresh", "", last=8)),
        "verl_small": _against_uniform(SMALL, "direct-quarter"),
        "verl_small_reason": _against_uniform(EARLIER, "metis-reason"),
        "quickstart_before": accuracy[0],
        "quickstart_after": accuracy[-1],
    }


def printed(file: str, before: str) -> float:
    """The number that follows a pattern, at its first place in a benchmark's output."""
    path = EVIDENCE / f"benchmarks-{file}.txt"
    match = re.search(rf"{before}\s*([\d.]+)", path.read_text("utf-8"), re.DOTALL)
    if match is None:
        raise LookupError(f"{path} has no number after {before!r}")
    return float(match[1])


def _against_uniform(folder: str, arm: str) -> float:
    return against_uniform(Steps(f"{folder}/{arm}", ""), Steps(f"{folder}/uniform", ""))


def _script(name: str) -> str:
    return f"`benchmarks/{name}.py`"


def _table(head: Row, rows: list[Row]) -> str:
    """Not aligned, as tables of numbers are: the sentences are long."""
    lines = [" | ".join(row) for row in (head, *rows)]
    filled = [f"| {line} |".format_map(numbers()) for line in lines]
    return "\n".join([filled[0], "|---|---|---|", *filled[1:]]) + "\n"
