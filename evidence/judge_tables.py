"""Tables of the offline judge sets: what is in them, and how judges do on them."""

import json
import sys
from pathlib import Path

from metis.surveys.facts import Share, SurveyFacts
from metis.surveys.outcome_set import SUFFIX, OutcomeSet
from metis.text import markdown_table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))


def pools(folder: Path) -> str:
    """The facts of every set."""
    heads = ["set", "model", "prompts", "all-fail", "informative", "all-pass", "truncated"]
    rows = [[*heads, "median tokens"]]
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        outcome_set = OutcomeSet.read(path)
        facts = SurveyFacts(outcome_set.outcomes)
        shares = facts.shares()
        kinds = [_share(shares[kind]) for kind in ("all-fail", "informative", "all-pass")]
        drawn = f"{len(outcome_set.outcomes):,} of {outcome_set.pool:,}"
        model = Path(outcome_set.settings["engine"]["model"]).name
        others = [f"{facts.cut_off:.1%}", f"{facts.length(0.5):,.0f}"]
        rows.append([f"`{path.name.removesuffix(SUFFIX)}`", model, drawn, *kinds, *others])
    return markdown_table(rows)


def judges(results: Path) -> str:
    """The tables of a file of results."""
    from offline_table import summary

    about, *rows = map(json.loads, results.read_text("utf-8").splitlines())
    return summary(rows, about)


SHORT = {
    "level label": "the mean of its level (MATH; DAPO has none)",
    "probe": "probe",
    "probe, logistic": "probe with a logistic regression",
    "readout of the prompt": "readout",
}
SETS = {"math": "MATH", "dapo": "DAPO-Math-17k"}
SAID = {"spearman": "correlation", "informative": "informative"}


def in_short(results: Path) -> str:
    """Of the judges that one would choose between, with all labels."""
    from offline_table import estimate

    about, *rows = map(json.loads, results.read_text("utf-8").splitlines())
    heads = [f"{title}: {column}" for title in SETS.values() for column in SAID.values()]
    lines = [["judge", *heads]]
    for judge, called in SHORT.items():
        mine = [row for row in rows if (row["row"], row["labels"]) == (judge, about["labels"][-1])]
        cells = [
            estimate([row[key] for row in mine if row["set"] == name])
            for name in SETS
            for key in SAID
        ]
        lines.append([called, *cells])
    return markdown_table(lines)


def _share(share: Share) -> str:
    return f"{share.value:.1%} [{share.low:.1%}, {share.high:.1%}]"
