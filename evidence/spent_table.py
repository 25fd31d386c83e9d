"""What the runs behind the results cost: runs, tokens, and hours of training."""

from pathlib import Path

from metis.run.recorded import read_run
from metis.text import markdown_table

GROUPS = {
    "replication/additions": "the replication's additions, 135M",
    "hopeless-90": "additions, 90% all-fail, 135M",
    "levels-2-to-10": "additions, graded, 135M",
    "when-it-pays": "additions, 0% to 97% all-fail, 135M",
    "judge-in-training/dapo-hard": "DAPO-Math-17k, harder part, 1.5B",
    "judge-in-training/math": "MATH, 1.5B",
}
GENERATED = ("total/rollout_tokens", "total/judge_tokens")


def table(evidence: Path) -> str:
    """Each group of runs."""
    heads = ["runs of", "runs", "steps", "million generated tokens", "million total tokens"]
    rows = [[*heads, "hours of training, added up"]]
    for folder, said in GROUPS.items():
        runs = [read_run(path.parent) for path in sorted((evidence / folder).rglob("config.json"))]
        steps, hours = sum(run.steps for run in runs), sum(run.elapsed for run in runs) / 3600
        totals = [key for run in runs for key in run.metrics[-1].items() if "total/" in key[0]]
        generated = sum(value or 0.0 for key, value in totals if key in GENERATED)
        total = sum(value or 0.0 for key, value in totals if key.endswith("_processed"))
        spent = f"{generated / 1e6:.1f}", f"{total / 1e6:.1f}", f"{hours:.1f}"
        rows.append([said, str(len(runs)), f"{steps:,}", *spent])
    return markdown_table(rows)
