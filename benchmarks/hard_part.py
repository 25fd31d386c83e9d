"""The harder part of a prepared set, as an outcome set shows it: a file to train on.

    python benchmarks/hard_part.py evidence/judge-offline/dapo.jsonl.gz data/math/dapo.parquet \\
        data/math/dapo-hard.jsonl [--most 0.25]

Keeps the surveyed problems whose mean reward is at most `--most`, as the prepared file has them,
ids included, and prints how many of them are all-fail and informative. Those that no rollout solved
are kept too: eight failures are not a proof.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from metis import files
from metis.errors import MetisError, require
from metis.surveys.facts import SurveyFacts
from metis.surveys.outcome_set import OutcomeSet
from metis.tasks.file import read_rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("outcomes", type=Path, metavar="SET.jsonl.gz")
    parser.add_argument("data", type=Path, metavar="PREPARED.parquet")
    parser.add_argument("out", type=Path, metavar="OUT.jsonl")
    parser.add_argument("--most", type=float, default=0.25, help="mean reward (0.25)")
    chosen = parser.parse_args()
    require(0 <= chosen.most < 1, "--most", chosen.most, "use a mean reward from 0 to below 1")
    surveyed = OutcomeSet.read(chosen.outcomes).outcomes
    hard = {o.prompt: o for o in surveyed if o.rewards and np.mean(o.rewards) <= chosen.most}
    rows = [row for row in read_rows(str(chosen.data), "PREPARED") if _id(row) in hard]
    if len(rows) < len(hard):
        raise MetisError(
            f"{len(hard) - len(rows)} of {len(hard)} problems are not in {str(chosen.data)!r}: "
            "name the prepared file that the set was surveyed on"
        )
    with files.atomic(chosen.out) as file:
        file.write("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode())
    shares = SurveyFacts(list(hard.values())).shares()
    said = ", ".join(f"{shares[kind].value:.1%} {kind}" for kind in ("all-fail", "informative"))
    print(f"{len(rows):,} of {len(surveyed):,} problems ({said}) → {chosen.out}")


def _id(row: dict[str, object]) -> object:
    about = row.get("extra_info")
    return about.get("id") if isinstance(about, dict) else None


if __name__ == "__main__":
    main()
