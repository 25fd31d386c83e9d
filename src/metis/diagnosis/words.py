"""A diagnosis in words: a line for each question, and one or two about what to change next."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from metis.curricula.judges.skill import DIAGNOSED
from metis.diagnosis.commands import Commands
from metis.diagnosis.facts import RunFacts
from metis.diagnosis.rules import collapsed, found, lenient, no_benefit, worse
from metis.run.notices import sentence
from metis.run.recorded import Recorded

NEAR_THE_TOP = 0.9
"""Held-out accuracy before training that leaves little to gain."""
CAVEAT = 0.05
"""Share of truncated validation answers from which on it is told of."""
MOST = 2
"""Things to change next: more would not be done."""


class DiagnosisLine(NamedTuple):
    """A line of a diagnosis; `command` is what to run next, if anything."""

    kind: Literal["learnt", "wasted", "judge", "advice"]
    text: str
    command: str | None = None

    @property
    def question(self) -> str:
        """The question that the line answers."""
        return QUESTIONS[self.kind]


QUESTIONS = {
    "learnt": "Did it learn?",
    "wasted": "What was wasted?",
    "judge": "Did the judge help?",
    "advice": "What to change next?",
}


def lines(run: Recorded, named: Path | None = None) -> list[DiagnosisLine]:
    """The diagnosis of a run, whose folder the commands call `named`."""
    facts, commands = RunFacts(run), Commands(named or run.folder)
    said = [DiagnosisLine("learnt", learnt(facts)), DiagnosisLine("wasted", wasted(facts))]
    if facts.judged:
        said.append(DiagnosisLine("judge", judged(facts)))
    return [*said, *advice(facts, commands)]


def learnt(facts: RunFacts) -> str:
    """The line about held-out accuracy: risen, fallen, or not known."""
    tests = facts.run.evaluations
    if len(tests) < 2:
        return f"Cannot be told: {'one' if tests else 'no'} validation in {facts.run.steps:,} steps"
    first, last = tests[0], tests[-1]
    line = f"{_verdict(facts)}: held-out accuracy {first.accuracy:.3f} → {last.accuracy:.3f}"
    line += f" in {facts.run.steps:,} steps"
    if facts.change:
        line += f", {facts.change}"
        line += f" on the same {facts.heldout:,} problems" if facts.heldout else " unpaired"
    best = facts.run.best
    if best and first.accuracy < best.accuracy and best.step < last.step:
        line += f"; best {best.accuracy:.3f} at step {best.step:,}"
    failed = dict(zip(*facts.run.series("eval/failed"), strict=True)).get(last.step)
    line += f"; {failed:,.0f} of the last answers failed, and score 0" if failed else ""
    if lenient(facts) and not facts.run.config.get("benchmarks"):
        line += f"; this is the accuracy by {facts.own_reward}, which may pass wrong answers"
    return line + _cut_off(facts)


def _cut_off(facts: RunFacts) -> str:
    """A sentence about truncated validation answers, if there are many, and they did not end by
    becoming short."""
    tests, shares = facts.run.evaluations, facts.truncated_tests
    before, after = shares.get(tests[0].step), shares.get(tests[-1].step)
    told = [share for share in (before, after) if share is not None]
    if max(told, default=0.0) < CAVEAT or collapsed(facts):
        return ""
    ends = " → ".join(dict.fromkeys(f"{share:.0%}" for share in told))
    risen = facts.change is not None and facts.change.low > 0
    said = f"{ends} of the validation answers were truncated (scored on what was there)"
    return f". But {said}" if risen else f"; {said}"


def _verdict(facts: RunFacts) -> str:
    change = facts.change
    if change is None:
        return "Cannot be told" if facts.rise and facts.rise.mean else "No change"
    if change.low > 0:
        return "Yes"
    if change.high < 0:
        return "No, it fell"
    top = facts.run.evaluations[0].accuracy >= NEAR_THE_TOP
    return f"No change shown{', it began near the top' if top else ''}"


def wasted(facts: RunFacts) -> str:
    """Rollouts and tokens that taught nothing, and why."""
    if not facts.generated:
        return "No rollouts yet"
    parts = [
        f"{share:.0%} {name}"
        for name, share in (
            ("truncated", facts.truncated),
            ("failed", facts.failed),
            ("discarded", facts.discarded),
        )
        if share
    ]
    said = [f"{facts.generated:,.0f} rollouts{': ' if parts else ''}{', '.join(parts)}"]
    said += _groups(facts)
    if facts.wasted is not None:
        said.append(
            f"{facts.wasted:.0%} of the tokens taught nothing (groups whose rewards are all equal, "
            "or failed rollouts)"
        )
    return "; ".join(said)


def _groups(facts: RunFacts) -> Iterator[str]:
    """The shares of group kinds, as far as they are logged."""
    if facts.run.informative is None:
        yield "none was trained on"
        return
    kinds = [
        f"{facts.kinds[kind]:.0%} {kind}"
        for kind in ("all-fail", "all-pass")
        if facts.kinds.get(kind)
    ]
    of = f" ({', '.join(kinds)})" if kinds else ""
    yield f"{facts.run.informative:.0%} of the groups trained on had a gradient{of}"


def judged(facts: RunFacts) -> str:
    """The line about the realised lift of the judge over uniform sampling."""
    lift = facts.helped
    if lift is None:
        return "Cannot be told: there is no step with both its choices and uniform slots that vary"
    shown, few = lift.low > 0, facts.outcomes < DIAGNOSED
    verdict = "Yes" if shown else sentence(no_benefit(facts))
    if few and not shown and not worse(facts):
        verdict += f", and {facts.run.steps:,} steps are too few to tell"
    share = facts.run.judge_share
    cost = "" if share is None else f", for {share:.1%} of the time"
    said = f"the reward variance of its groups minus that of uniform ones is {lift}{cost}"
    return f"{verdict}: {'; '.join([said, *([] if shown or few else _unproven(facts))])}"


def _unproven(facts: RunFacts) -> Iterator[str]:
    """The rank correlation of a judge's predictions, and its trial, where they are recorded."""
    if facts.correlation is not None:
        yield (
            "rank correlation of its predictions in the last fifth of the steps "
            f"{facts.correlation:+.2f} (0 is chance)"
        )
    tried, steps = facts.run.tried, len(facts.run.series("select/trial").y)
    if tried:
        part = f"on trial in {tried:,} of {steps:,} steps"
        never = f"it never passed its trial (on trial in all {steps:,} steps)"
        yield never if tried == steps else part


def advice(facts: RunFacts, commands: Commands) -> Iterator[DiagnosisLine]:
    """The changes advised, against the most harmful first."""
    for place, rule in enumerate(islice(found(facts), MOST), start=1):
        command = rule.command(facts, replace(commands, place=place))
        yield DiagnosisLine("advice", sentence(rule.said(facts)), command)
