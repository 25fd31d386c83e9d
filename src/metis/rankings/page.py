"""`judge.html`: a ranking to read, and the summary that a terminal shows of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from metis.rankings.figures import figures
from metis.rankings.measured import HeldOutPredictions
from metis.rankings.ranking import Ranking
from metis.report import html
from metis.report.answers import turn
from metis.report.reproduce import command, portable
from metis.surveys.advice import advice
from metis.surveys.facts import PromptOutcome, Share, SurveyFacts
from metis.text import markdown_table, printable

SHOWN = 12
"""Prompts that are shown of either end."""
KEPT = (("eighth", 1 / 8), ("quarter", 1 / 4), ("half", 1 / 2))
BANDS = ((0.8, 1.0), (0.6, 0.8), (0.4, 0.6), (0.2, 0.4), (0.0, 0.2))
"""Pass rates from easy to hard."""
NONE = "–"


@dataclass(frozen=True)
class Judged:
    """All that is shown of a ranking."""

    model: str
    file: str
    group: int
    ranking: Ranking
    measured: HeldOutPredictions
    outcomes: Sequence[PromptOutcome]
    best: Sequence[Mapping[str, Any]]
    """Lines of the ranking, each with its `text`."""
    worst: Sequence[Mapping[str, Any]]
    words: Sequence[str]
    """The command."""

    @property
    def unread(self) -> int:
        """Prompts without a prediction."""
        return int(np.isnan(self.ranking.scores).sum())

    @property
    def summary(self) -> str:
        return (
            f"{len(self.ranking.scores):,} prompts ranked for {self.model}, by the rewards of "
            f"{len(self.outcomes):,} of them, {self.group} rollouts each."
        )

    @property
    def verdict(self) -> str:
        """A warning where the calibration does not support the ranking; else empty."""
        if self.measured.spearman is None:
            return (
                "No rank correlation could be measured: too few prompts of the calibration differ. "
                "Treat this as no ranking, or calibrate on more prompts."
            )
        if not self.measured.above_chance:
            return (
                "On prompts held out of the calibration, the ranking is not shown to be better "
                "than chance. Calibrate on more prompts with --calibrate."
            )
        return ""


def markdown(judged: Judged) -> str:
    """The summary for a terminal."""
    sections = ["# Ranking\n", f"{printable(judged.summary)}\n"]
    if judged.verdict:
        sections.append(f"**{judged.verdict}**\n")
    sections += [
        markdown_table([["", ""], *_facts(judged)]),
        "## What a schedule would pick\n",
        markdown_table(_kept(judged)),
    ]
    return "\n".join(sections)


def page(judged: Judged) -> str:
    """The whole page; the same ranking gives the same text."""
    drawn = figures(judged.ranking, judged.measured, judged.outcomes)
    body = [
        '<header><p class="over">METIS judge</p>',
        f"<h1>{escape(printable(judged.file))}</h1>",
        f'<p class="soft">{escape(printable(portable(judged.summary)))}</p></header>',
        *([html.banner("Not a ranking yet.", judged.verdict)] if judged.verdict else []),
        *([html.banner("Not predicted:", _unread(judged))] if judged.unread else []),
        html.table([["", ""], *_facts(judged)]),
        f'<p class="about">{escape(advice(SurveyFacts(judged.outcomes), judged.group))}</p>',
        *html.figures(drawn, (), ""),
        "<h2>What a schedule would pick</h2>",
        '<p class="soft">A filter keeps the best prompts by expected variance. Measured: on '
        "prompts held out of the calibration, ranked by a fit without them.</p>",
        html.table(_kept(judged)),
        *_bands(judged),
        *_prompts("Best prompts", "The highest expected variance.", judged.best),
        *_prompts("Worst prompts", "The lowest expected variance.", judged.worst),
        html.commands([command(*judged.words)]),
    ]
    return html.document(judged.file, body, made_from="a ranking and its calibration")


def _unread(judged: Judged) -> str:
    return f"{judged.unread:,} prompts have no finite hidden state, and rank last."


def _facts(judged: Judged) -> list[list[str]]:
    measured, facts = judged.measured, SurveyFacts(judged.outcomes)
    correlation = measured.spearman
    said = NONE if correlation is None else f"{correlation:.2f} ± {measured.error:.2f}"
    variances = judged.ranking.variances
    rows = [
        [f"rank correlation with measured variance, {len(measured):,} held-out prompts", said],
        ["informative prompts, measured", _share(facts.informative)],
        ["all-fail", _share(facts.shares()["all-fail"])],
        ["all-pass", _share(facts.shares()["all-pass"])],
    ]
    if variances.size:
        rows.append(["expected variance, mean of all prompts", f"{variances.mean():.3f}"])
    if facts.failed:
        rows.append(["rollouts failed", f"{facts.failed:.1%}"])
    if facts.cut_off:
        rows.append(["answers truncated", f"{facts.cut_off:.1%}"])
    return rows


def _share(share: Share) -> str:
    return f"{share.value:.1%} [{share.low:.1%} to {share.high:.1%}]"


def _kept(judged: Judged) -> list[list[str]]:
    """The best shares of the file, and all of it: expected variance, and what was measured."""
    variances, rates = judged.ranking.variances, judged.ranking.ranked_pass_rates
    head = ["kept", "prompts", "expected variance", "over that of all"]
    head += ["expected pass rate"] if rates.size else []
    rows = [[*head, "measured over that of all", "informative, measured"]]
    for name, share in (*KEPT, ("all", 1.0)) if variances.size else ():
        count = max(1, round(share * len(variances)))
        best, whole = float(variances[:count].mean()), float(variances.mean())
        row = [name if share == 1 else f"best {name}", f"{count:,}", f"{best:.3f}"]
        row.append(f"{best / whole:.2f}" if whole else NONE)
        row += [f"{rates[:count].mean():.2f}"] if rates.size else []
        lift = judged.measured.lift(share) if len(judged.measured) else None
        row.append(NONE if lift is None else f"{lift:.2f}")
        row.append(f"{judged.measured.informative(share):.0%}" if len(judged.measured) else NONE)
        rows.append(row)
    return rows


def _bands(judged: Judged) -> Iterator[str]:
    """Prompts by expected pass rate, from easy to hard."""
    rates, variances = judged.ranking.ranked_pass_rates, judged.ranking.variances
    if not rates.size:
        return
    rows = [["expected pass rate", "prompts", "share", "expected variance"]]
    for low, high in BANDS:
        inside = (rates >= low) & ((rates < high) | (high == 1.0))
        count = int(inside.sum())
        mean = f"{variances[inside].mean():.3f}" if count else NONE
        rows.append([f"{low:.1f} to {high:.1f}", f"{count:,}", f"{count / len(rates):.1%}", mean])
    yield '<p class="about">A schedule by pass rate goes from easy to hard prompts:</p>'
    yield html.table(rows)


def _prompts(title: str, about: str, lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f'<h2>{title}</h2><p class="soft">{about}</p><div class="answers">'
    for line in lines:
        facts = [f"expected variance {line['expected_variance']:.3f}"]
        if line["expected_pass_rate"] is not None:
            facts.append(f"expected pass rate {line['expected_pass_rate']:.2f}")
        if "measured_pass_rate" in line:
            facts.append(f"measured {line['measured_pass_rate']:.2f}")
        yield (
            f'<article class="answer"><h3>{line["rank"]:,}</h3>'
            f'<p class="soft">{escape(" · ".join(facts))}</p>'
            f"{turn(printable(line['id']), line['text'])}</article>"
        )
    yield "</div>"
