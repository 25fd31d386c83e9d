"""`survey.md`: the facts of a training set as tables, and the advice that follows."""

from collections.abc import Iterator, Mapping

from metis.run.statistics import KINDS
from metis.surveys.advice import advice
from metis.surveys.facts import Share, SurveyFacts
from metis.surveys.measured import GAINS
from metis.surveys.prediction import predict
from metis.text import markdown_table

WIDTH = 30
"""Characters of the longest bar."""

BINS = 8
"""Parts of the histogram, where groups are not smaller."""

MULTIPLIERS = (2, 4, 8, 16)

MEANING = {
    "all-fail": "all rollouts fail",
    "informative": "rollouts differ",
    "all-pass": "all rollouts pass",
    "failed": "no reward could be had",
}


def page(
    facts: SurveyFacts,
    pool: int,
    group: int,
    seconds: Mapping[str, float],
    simulated: bool = False,
    task: str = "",
) -> str:
    """The whole survey; the same outcomes give the same text."""
    learner = " The learner is simulated, no language model." if simulated else ""
    sections = [
        "# Survey\n",
        f"{len(facts.outcomes):,} of {pool:,} prompts, {group} rollouts each.{learner}\n",
        f"**{advice(facts, group, task)}**\n",
        "## The training set\n",
        _shares(facts),
        *_by_category(facts),
        "## Mean reward of a prompt\n",
        _histogram(facts, group),
        "## What selection could gain\n",
        _ceilings(facts),
        *_place(facts, task),
        "## Answers\n",
        _answers(facts),
        *_seconds(seconds),
    ]
    return "\n".join(sections)


def _shares(facts: SurveyFacts) -> str:
    rows = [["prompts", "", "share", "95% interval"]]
    for kind, share in facts.shares().items():
        if kind != "failed" or share.value:
            rows.append([kind, MEANING[kind], f"{share.value:.1%}", _interval(share)])
    return markdown_table(rows)


def _interval(share: Share) -> str:
    return f"{share.low:.1%} to {share.high:.1%}"


def _by_category(facts: SurveyFacts) -> Iterator[str]:
    if len(facts.categories) < 2:
        return
    rows = [["category", "prompts", *KINDS[:3]]]
    for category, count in facts.categories.items():
        shares = facts.shares(category)
        rows.append(
            [category or "none", str(count), *(f"{shares[kind].value:.0%}" for kind in KINDS[:3])]
        )
    yield "## By category\n"
    yield markdown_table(rows)


def _histogram(facts: SurveyFacts, group: int) -> str:
    bins = min(group, BINS)
    counts = facts.histogram(bins)
    most = max(1, *counts)
    rows = [["mean reward", "prompts", ""]]
    for place, count in enumerate(counts):
        rows.append([f"{place / bins:.3g}", str(count), "█" * -(-WIDTH * count // most)])
    return markdown_table(rows)


def _ceilings(facts: SurveyFacts) -> str:
    """Variance of the best 1/m over the mean: what a perfect judge of m candidates would find."""
    rows = [["candidates a place (m)", "mean variance of the best 1/m over that of all"]]
    for multiplier in MULTIPLIERS:
        gain = facts.ceiling(multiplier)
        rows.append([str(multiplier), "nothing varies" if gain is None else f"{gain:.2f}"])
    return markdown_table(rows)


def _place(facts: SurveyFacts, task: str) -> Iterator[str]:
    """Measured training sets and this one, sorted by their share of informative prompts."""
    share = facts.informative
    if not share.value:
        return
    rows = []
    for gain in GAINS:
        cells = [gain.name, f"{gain.informative:.1%}", f"{gain.cost.rollouts:.2f}"]
        rows.append((gain.informative, [*cells, f"{gain.cost.total:.2f}"]))
    expected = predict(share, task)
    said = "not predicted"
    if expected is not None:
        said = f"predicted {expected.rollouts:.2f} ({expected.low:.2f} to {expected.high:.2f})"
    rows.append((share.value, ["**this training set**", f"**{share.value:.1%}**", said, ""]))
    ordered = sorted(rows, key=lambda row: -row[0])
    header = ["training set", "informative at first", "METIS's rollouts to equal accuracy"]
    yield "## Among measured training sets\n"
    yield markdown_table([[*header, "its total tokens"], *(row for _, row in ordered)])
    yield (
        "Uniform sampling's = 1. Additions with 135M parameters, mathematics with 1.5B, few runs "
        "each (docs/choosing.md): elsewhere a hint.\n"
    )


def _answers(facts: SurveyFacts) -> str:
    rows = [
        ["tokens of an answer: median", f"{facts.length(0.5):,.0f}"],
        ["tokens of an answer: 95th percentile", f"{facts.length(0.95):,.0f}"],
        ["answers truncated", f"{facts.cut_off:.1%}"],
        ["rollouts failed", f"{facts.failed:.1%}"],
    ]
    if facts.waste is not None:
        rows.append(["tokens in groups without variance", f"{facts.waste:.1%}"])
    return markdown_table([["", ""], *rows])


def _seconds(seconds: Mapping[str, float]) -> Iterator[str]:
    if not seconds:
        return
    whole = sum(seconds.values())
    rows = [["phase", "seconds", "share"]]
    rows += [[name, f"{value:.2f}", f"{value / whole:.0%}"] for name, value in seconds.items()]
    judging = seconds.get("judge", 0.0)
    yield "## A step of METIS, measured\n"
    yield markdown_table(rows)
    if whole > judging:
        yield f"Judging adds {judging / (whole - judging):.0%} to a step.\n"
