"""Writes every table and figure of README and docs that comes from the runs in this folder.

    python evidence/publish.py            write what is stale, and name it
    python evidence/publish.py --check    name it, and exit with 1 if there is any

A table stands between `<!-- evidence: NAME -->` and `<!-- end of evidence -->` in a Markdown file.
"""

import argparse
import re
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import before_rollouts
import claims_table
import cost_tables
import judge_tables
import learning_figure
import numpy as np
import paper_table
import replication_figure
import replication_tables
import scale_tables
import spent_table
import step_tables
import survey_figure
import survey_table
import training_tables
import when_it_pays

from metis.comparisons.accuracy import above
from metis.comparisons.measures import AXES, MeasuredVariant, find, measure
from metis.comparisons.significance import (
    BootstrapInterval,
    cost_to_best,
    least_p,
    observed,
    p_value,
)
from metis.comparisons.verdicts import number
from metis.run.statistics import Estimate, mean
from metis.text import markdown_table

EVIDENCE = Path(__file__).resolve().parent
ROOT = EVIDENCE.parent
JUDGES = EVIDENCE / "judge-offline"
TRAINED = EVIDENCE / "judge-in-training"
REPLICATION = EVIDENCE / "replication"
BLOCK = re.compile(r"(<!-- evidence: ([\w-]+) -->\n).*?(<!-- end of evidence -->)", re.DOTALL)

HOPELESS = {
    "metis": "the recommended preset",
    "metis-offsets-9": "the same, offsets over 9 steps, exemplars replayed too; 50 steps",
    "metis-replay-128": "all outcomes of the last 8 steps are replayed",
    "metis-explored-first": "explored outcomes are replayed before others",
    "metis-explored-first-again": "the same setting, run again",
    "metis-share-0.5": "explored outcomes first, `judge.share=0.5`",
    "metis-share-0.5-m-16": "the same, with twice the candidates",
    "metis-share-1": "explored outcomes first, `judge.share=1`",
    "metis-passes-share-1": "the same with `judge.scale=passes`",
}
SPENT = (AXES[0], AXES[2], AXES[3])
COSTS = ("curves", "steps, rollouts", "generated tokens", "total tokens")


@cache
def pools() -> list[when_it_pays.Pool]:
    """The training sets of `when-it-pays`."""
    return when_it_pays.measured_pools(EVIDENCE)


def variant(folder: str, name: str, seeds: range) -> MeasuredVariant:
    """The runs of a variant with these seeds."""
    out = EVIDENCE / folder
    return measure(name, find(out, [name], list(seeds))[name])


def costs(one: MeasuredVariant, baseline: MeasuredVariant) -> list[str]:
    """How curves are read, and costs to reach the baseline's best, as shares of its own."""
    pairs = [(one.runs(axis), baseline.runs(axis)) for axis in SPENT]
    curves = "smoothed" if observed(*pairs[0]).smooth[0] else "raw"
    return [curves, *(_ratio(cost_to_best(*pair, np.random.default_rng(0))) for pair in pairs)]


def hopeless_seeds() -> str:
    """The recommended preset against uniform sampling, by the seeds that are averaged."""
    rows = [["seeds", *COSTS, "p", "least p"]]
    for seeds in (range(6), range(3), range(3, 6)):
        pair = [variant("hopeless-90", name, seeds) for name in ("metis", "uniform")]
        p = p_value(*(each.runs("rollouts") for each in pair), np.random.default_rng(0))
        least = least_p(len(seeds), len(seeds))
        tested = number(p), f"{number(least)} ({len(seeds)} v {len(seeds)})"
        rows.append([f"{seeds[0]} to {seeds[-1]}", *costs(*pair), *tested])
    return markdown_table(rows)


def hopeless_variants() -> str:
    """Every setting that was tried, on the seeds that all of them have."""
    baseline = variant("hopeless-90", "uniform", range(3))
    rows = [["variant", "setting", *COSTS]]
    for name, setting in HOPELESS.items():
        rows.append(
            [f"`{name}`", setting, *costs(variant("hopeless-90", name, range(3)), baseline)]
        )
    return markdown_table(rows)


def levels() -> str:
    """Mean accuracy over the curve, where a quarter of the prompts is soon informative."""
    baseline = variant("levels-2-to-10", "uniform", range(3))
    rows = [["variant", "mean accuracy over 160 steps", "difference", "last validation"]]
    for name in ("uniform", "metis", "metis-explored-first"):
        one = variant("levels-2-to-10", name, range(3))
        means = one.accuracy.mean(axis=1)
        change, _ = above(one, baseline, np.random.default_rng(0))
        rows.append(
            [
                f"`{name}`",
                _estimate(mean(means.tolist())),
                "" if name == "uniform" else _signed(change),
                _estimate(one.final),
            ]
        )
    return markdown_table(rows)


def _ratio(ratio: BootstrapInterval) -> str:
    high = f"{ratio.high:.2f}" if np.isfinite(ratio.high) else "∞"
    return f"{ratio.value:.2f} [{ratio.low:.2f}, {high}]"


def _signed(change: BootstrapInterval) -> str:
    return f"{change.value:+.3f} [{change.low:+.3f}, {change.high:+.3f}]"


def _estimate(estimate: Estimate) -> str:
    return f"{estimate.mean:.3f} ± {estimate.error or 0:.3f}"


BLOCKS: dict[str, Callable[[], str]] = {
    "hopeless-seeds": hopeless_seeds,
    "hopeless-variants": hopeless_variants,
    "levels": levels,
    "before-rollouts": before_rollouts.table,
    "before-rollouts-additions": partial(before_rollouts.table, "additions"),
    "when-it-pays": lambda: when_it_pays.table(pools()),
    "replication-state": partial(replication_tables.state, REPLICATION),
    "replication-90": partial(replication_tables.additions, REPLICATION / "additions/hopeless-90"),
    "replication-97": partial(replication_tables.additions, REPLICATION / "additions/hopeless-97"),
    "claims": partial(claims_table.table, EVIDENCE),
    "survey-predicted": partial(survey_table.table, EVIDENCE),
    "spent": partial(spent_table.table, EVIDENCE),
    "paper": paper_table.table,
    "judge-sets": lambda: judge_tables.pools(JUDGES),
    **{
        f"judge-offline-{name}": partial(judge_tables.judges, JUDGES / f"{name}-results.jsonl")
        for name in ("arithmetic-smollm2", "qwen", "qwen-earlier")
    },
    "judge-offline-in-short": lambda: judge_tables.in_short(JUDGES / "qwen-results.jsonl"),
    **{
        f"judge-online-{name}": partial((JUDGES / f"online-{name}.md").read_text, "utf-8")
        for name in ("dapo-hard", "math", "arithmetic-smollm2")
    },
    **{
        f"{name}-{pool}": partial(table, TRAINED / pool)
        for name, table in (
            ("judge-in-training", training_tables.results),
            ("judge-at-once", training_tables.at_once),
            ("judge-by-test", training_tables.by_test),
            ("judge-skill", training_tables.skill),
        )
        for pool in ("dapo-hard", "math")
    },
    "when-it-pays-in-short": lambda: when_it_pays.short_table(pools()),
    "steps-verl": step_tables.verl_table,
    "steps-local": step_tables.local_table,
    "scale-errors": scale_tables.errors,
    "scale-memory": scale_tables.memory,
    "scale-seconds": scale_tables.seconds,
    "quickstart": step_tables.quickstart_table,
    "bfcl": step_tables.bfcl_table,
    "costs-in-short": cost_tables.in_short,
    "costs-selection": lambda: cost_tables.measured(cost_tables.SELECTION),
    "costs-steps": lambda: cost_tables.measured(cost_tables.STEPS),
    "costs-data": lambda: cost_tables.measured(cost_tables.DATA),
    "costs-looking": lambda: cost_tables.measured(cost_tables.LOOKING, "timed"),
    "costs-keeping": lambda: cost_tables.measured(cost_tables.KEEPING),
}


def rendered() -> dict[Path, str]:
    """Every published file with what it should say."""
    figures = ROOT / "docs/figures"
    texts = {
        figures / "when-it-pays.svg": when_it_pays.figure(pools()),
        figures / "mathematics.svg": learning_figure.figure(TRAINED),
        figures / "replication.svg": replication_figure.figure(REPLICATION / "additions"),
        figures / "survey.svg": survey_figure.figure(JUDGES),
    }
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *EVIDENCE.glob("*.md")]
    for page in pages:
        text = page.read_text("utf-8")
        if BLOCK.search(text):
            texts[page] = fill(text)
    return texts


def fill(text: str) -> str:
    """A page with each of its tables as the runs have it."""
    return BLOCK.sub(lambda match: match[1] + BLOCKS[match[2]]() + match[3], text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    texts = rendered()
    stale = [
        path for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text
    ]
    for path in stale:
        print(f"{'stale' if check else 'written'}: {path.relative_to(ROOT)}")
        if not check:
            path.write_text(texts[path], "utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
