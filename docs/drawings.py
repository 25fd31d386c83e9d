"""Writes the drawings of docs/figures: the loop of a step, and when curricula act. `make docs`."""

import textwrap
from pathlib import Path

from metis.curricula import CURRICULA
from metis.curricula.cards import curriculum_card

FOLDER = Path(__file__).with_name("figures")
STYLE = """
svg { --ground: #fff; --ink: #1b1f27; --soft: #5a6373; --faint: #eef0f3; --edge: #b9c0ca;
  --judge: #0072b2; --cost: #d55e00;
  background: var(--ground); font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
@media (prefers-color-scheme: dark) { svg {
  --ground: #14171c; --ink: #e8eaee; --soft: #9aa4b4; --faint: #20242c; --edge: #4b5361;
  --judge: #58aee6; --cost: #ff8b45; } }
text { fill: var(--soft); text-anchor: middle; } .start { text-anchor: start; }
.name { fill: var(--ink); font-weight: 600; }
rect { fill: var(--faint); stroke: var(--edge); } .judge { stroke: var(--judge); stroke-width: 2; }
.cost { stroke: var(--cost); stroke-width: 2; }
path { fill: none; stroke: var(--soft); stroke-width: 1.5; marker-end: url(#tip); }
path.judge { stroke: var(--judge); stroke-width: 2; marker-end: url(#judge-tip); }
text.judge { fill: var(--judge); stroke: none; } text.cost { fill: var(--cost); stroke: none; }
.plain { marker-end: none; } marker path { stroke: none; fill: var(--soft); marker-end: none; }
marker .judge { stroke: none; fill: var(--judge); marker-end: none; }
"""
TIP = (
    '<marker id="{}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
    ' markerUnits="userSpaceOnUse" orient="auto"><path{} d="M0 0L8 4L0 8z"/></marker>'
)
STEPS = (
    ("pool", "training prompts", ""),
    ("candidates", "m·B drawn", ""),
    ("judge", "predicts if their rewards will vary", "judge"),
    ("chosen", "the B highest", ""),
    ("rollouts", "n answers to each", "cost"),
    ("rewards", "and their variance", ""),
    ("update", "of the policy, by GRPO", ""),
)
WIDE, HIGH, GAP, TOP = 108, 84, 24, 58
LINE = 16


def step() -> str:
    """The loop of a step of METIS."""
    left = {name: 10 + place * (WIDE + GAP) for place, (name, _, _) in enumerate(STEPS)}
    middle = {name: x + WIDE // 2 for name, x in left.items()}
    centre, bottom, above, below = TOP + HIGH // 2, TOP + HIGH, TOP - 22, TOP + HIGH + 34
    parts = [box(left[each[0]], TOP, WIDE, HIGH, *each) for each in STEPS]
    parts += [f'<path d="M{x + WIDE} {centre}h{GAP - 2}"/>' for x in list(left.values())[:-1]]
    back = f"M{middle['rewards']} {bottom}V{below}H{middle['judge']}V{bottom + 3}"
    parts.append(f'<path class="judge" d="{back}"/>')
    said = "the judge learns from the outcomes"
    parts.append(text(middle["chosen"] + 66, below - 8, said, "judge"))
    parts.append(text(left["pool"], below - 8, "candidates that are not", "start"))
    parts.append(text(left["pool"], below + 8, "chosen cost no rollout", "start"))
    new = f"M{middle['update']} {TOP}V{above}H{middle['judge']}V{TOP - 3}"
    parts.append(f'<path d="{new}"/>')
    parts.append(f'<path d="M{middle["rollouts"]} {above}V{TOP - 3}"/>')
    said = "the next step is judged, and answered, by the new policy"
    parts.append(text(middle["rollouts"], above - 9, said))
    return drawing("The loop of a step", 20 + len(STEPS) * (WIDE + GAP) - GAP, below + 22, parts)


def timeline() -> str:
    """When the curricula act in a step."""
    acts: dict[str, list[str]] = {}
    for name, kind in CURRICULA.items():
        acts.setdefault(curriculum_card(kind).acts.rstrip("."), []).append(name)
    before, both, after = (
        acts.pop(each) for each in ("before rollouts", "before and after", "after rollouts")
    )
    assert not acts, f"no place for {acts}"
    first, last, wide = 150, 610, 300
    parts = [
        box(first, 10, wide, 40, "candidates", "", ""),
        box(first + wide + 20, 10, 120, 40, "rollouts", "", "cost"),
        box(last, 10, wide, 40, "rewards", "", ""),
        f'<path d="M{first + wide} 30h18"/>',
        f'<path d="M{last - 20} 30h18"/>',
    ]
    top = 74
    rows = (
        ("before rollouts", before, "only what is chosen", "is rolled out"),
        ("before and after", both, "some are skipped,", "or screened first"),
        ("after rollouts", after, "all are rolled out,", "some trained on"),
    )
    for name, names, *said in rows:
        lines = textwrap.wrap(", ".join(names), 42)
        high = 20 + LINE * max(len(lines), 2)
        centre = top + high // 2
        parts.append(text(10, centre + 5, name, "start name"))
        places = {"before rollouts": [first], "after rollouts": [last]}.get(name, [first, last])
        for place in places:
            size = f'width="{wide}" height="{high}" rx="6"'
            parts.append(f'<rect class="judge" x="{place}" y="{top}" {size}/>')
            at = centre - LINE * (len(lines) - 1) / 2 + 4
            parts += [text(place + wide // 2, at + LINE * i, line) for i, line in enumerate(lines)]
        between = first + wide + 80
        parts += [text(between, centre - 3 + LINE * i, line) for i, line in enumerate(said)]
        top += high + 14
    return drawing("When curricula act", last + wide + 10, top, parts)


def box(left: int, top: int, wide: int, high: int, name: str, said: str, kind: str) -> str:
    """A rectangle with a name, and what it stands for."""
    lines = textwrap.wrap(said, 15)
    centre, first = left + wide // 2, top + high / 2 + 5 - LINE * len(lines) / 2
    rows = [text(centre, first + LINE * (i + 1), line) for i, line in enumerate(lines)]
    edge = f'<rect class="{kind}" x="{left}" y="{top}" width="{wide}" height="{high}" rx="6"/>'
    return "".join([edge, text(centre, first, name, "name"), *rows])


def text(x: float, y: float, said: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{style}>{said}</text>'


def drawing(title: str, wide: int, high: int, parts: list[str]) -> str:
    tips = TIP.format("tip", "") + TIP.format("judge-tip", ' class="judge"')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}"'
    head = f'{head} role="img" aria-label="{title}">'
    return "\n".join([head, f"<style>{STYLE}</style>", f"<defs>{tips}</defs>", *parts, "</svg>\n"])


DRAWINGS = {"step.svg": step, "curricula.svg": timeline}

if __name__ == "__main__":
    for name, draw in DRAWINGS.items():
        (FOLDER / name).write_text(draw(), "utf-8")
