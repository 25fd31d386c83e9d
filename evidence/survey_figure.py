"""What surveys see: prompts of recorded outcome sets by how many of their rollouts pass."""

from pathlib import Path

from when_it_pays import STYLE

from metis.surveys.facts import SurveyFacts
from metis.surveys.outcome_set import SUFFIX, OutcomeSet

SETS = {
    "arithmetic-smollm2": "Addition, 135M",
    "dapo": "DAPO-Math-17k, 1.5B",
    "math": "MATH, 1.5B",
}
WIDE, HIGH, GAP, TOP, BAR = 280, 150, 30, 54, 22


def figure(folder: Path) -> str:
    """The sets side by side, as an SVG file."""
    charts = "".join(
        chart(OutcomeSet.read(folder / f"{name}{SUFFIX}"), title, place * (WIDE + GAP))
        for place, (name, title) in enumerate(SETS.items())
    )
    wide, high = len(SETS) * (WIDE + GAP) - GAP, TOP + HIGH + 50
    said = "Share of prompts by how many of eight rollouts pass, on three training sets"
    box = f'viewBox="-14 -8 {wide + 28} {high + 8}" width="{wide}" role="img" aria-label="{said}"'
    grey = ".equal { fill: var(--soft); opacity: 0.55; }"
    style = f"<style>{STYLE}{grey}</style>"
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{style}{charts}</svg>\n'


def chart(outcome_set: OutcomeSet, title: str, left: int) -> str:
    """Bars of mixed-reward prompts in colour, of the others in grey."""
    facts = SurveyFacts(outcome_set.outcomes)
    group = outcome_set.settings["group"]
    counts = facts.histogram(group)
    total, step = sum(counts), WIDE / len(counts)
    mixed = f"{facts.informative.value:.0%} have mixed rewards"
    parts = [text(left, 14, title, "axis"), text(left, 31, mixed, "c0")]
    for passed, count in enumerate(counts):
        x, tall = left + passed * step + (step - BAR) / 2, HIGH * count / total
        kind = "equal" if passed in (0, group) else "c0"
        place = f'x="{x:.1f}" y="{TOP + HIGH - tall:.1f}" width="{BAR}" height="{tall:.1f}"'
        parts.append(f'<rect {place} class="{kind}"/>')
        middle = x + BAR / 2
        if 100 * count >= total:
            above = TOP + HIGH - tall - 5
            parts.append(text(middle, above, f"{count / total:.0%}", "middle"))
        parts.append(text(middle, TOP + HIGH + 16, str(passed), "middle"))
    parts.append(f'<path class="base" d="M{left} {TOP + HIGH}h{WIDE}"/>')
    label = f"of {group} rollouts pass"
    parts.append(text(left + WIDE / 2, TOP + HIGH + 34, label, "middle"))
    return "".join(parts)


def text(x: float, y: float, words: str, style: str) -> str:
    """One line of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{style}">{words}</text>'
