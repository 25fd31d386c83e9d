"""The style sheets of a report and its charts: light and dark, wide and narrow, screen and paper.

The colours of runs are those of Okabe and Ito, which people with any colour vision tell apart;
on dark ground they are lighter.
"""

LIGHT = """
:root {
  color-scheme: light dark;
  --ground: #ffffff; --card: #f6f7f9; --ink: #1b1f27; --soft: #5a6373; --faint: #e3e6eb;
  --warn: #fff4d6; --warn-ink: #5c4400; --warn-edge: #e0b43c;
  --c0: #0072b2; --c1: #d55e00; --c2: #00855f; --c3: #b1508a; --c4: #b07a00; --c5: #2f96d0;
  --judge: #d55e00; --select: #b1508a; --rollout: #5a9bd4; --reward: #4bb293;
  --update: #8a94a6; --other: #c9ced8;
}
"""

CHARTS = """svg text { font-size: 12.5px; fill: var(--soft); }
svg .axis { fill: var(--ink); }
svg .strong { fill: var(--ink); font-weight: 600; }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg path { fill: none; }
.grid { stroke: var(--faint); } .base { stroke: var(--soft); stroke-opacity: 0.6; }
.reference { stroke: var(--soft); stroke-dasharray: 5 4; }
.chance { fill: var(--soft); fill-opacity: 0.14; }
.span { fill: var(--warn-edge); }
.line { stroke: currentColor; stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round; }
.raw { stroke: currentColor; stroke-width: 0.8; stroke-opacity: 0.32; stroke-linejoin: round; }
.band { fill: currentColor; fill-opacity: 0.13; }
.error { stroke: currentColor; stroke-width: 1.2; stroke-opacity: 0.65; }
.dot { fill: currentColor; stroke: var(--ground); stroke-width: 1; }
.line.again { stroke-dasharray: 1 5; } .line.dashed { stroke-dasharray: 5 4; stroke-width: 1.5; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); }
.c3 { color: var(--c3); } .c4 { color: var(--c4); } .c5 { color: var(--c5); }
.phase { fill: currentColor; }
.judge { color: var(--judge); } .select { color: var(--select); }
.rollout { color: var(--rollout); } .reward { color: var(--reward); }
.update { color: var(--update); } .other { color: var(--other); }"""
"""All that a chart needs; the ground and the colours are those of the page around it."""

STYLE = (
    LIGHT
    + """@media screen and (prefers-color-scheme: dark) {
  :root {
    --ground: #14171c; --card: #1d2128; --ink: #e8eaee; --soft: #9aa4b4; --faint: #2f353f;
    --warn: #33290f; --warn-ink: #f3d98f; --warn-edge: #8a6d1d;
    --c0: #58aee6; --c1: #ff8b45; --c2: #35c79a; --c3: #e08cbc; --c4: #edb33d; --c5: #8fd0f7;
    --judge: #ff8b45; --select: #e08cbc; --rollout: #4687bf; --reward: #2f9c7b;
    --update: #69748a; --other: #454d5b;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 1120px; padding: 48px 32px 64px; background: var(--ground);
  color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans",
  "DejaVu Sans", sans-serif; font-variant-numeric: tabular-nums; overflow-wrap: anywhere;
}
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 8px; letter-spacing: -0.01em; }
h2 { font-size: 20px; margin: 56px 0 4px; }
h3 { font-size: 16px; margin: 0 0 2px; }
p { margin: 0; }
.over { color: var(--soft); font-size: 13px; letter-spacing: 0.06em; text-transform: uppercase; }
.soft, figcaption { color: var(--soft); }
.banner {
  margin: 24px 0 0; padding: 12px 16px; border: 1px solid var(--warn-edge); border-radius: 8px;
  background: var(--warn); color: var(--warn-ink); font-size: 15px;
}
.diagnosis { margin: 28px 0 0; }
.diagnosis h2 { font-size: 17px; margin: 0 0 6px; }
.diagnosis h2 + dl dt { font-weight: 400; color: var(--soft); }
.diagnosis dl { display: grid; grid-template-columns: 13em minmax(0, 1fr); gap: 10px 16px;
  margin: 0; }
.diagnosis dt { grid-column: 1; font-weight: 600; }
.diagnosis dd { grid-column: 2; margin: 0; }
.diagnosis pre { padding: 6px 12px; margin-top: 6px; border-radius: 6px; background: var(--card); }
.answers { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 320px), 1fr));
  gap: 20px; margin-top: 16px; align-items: start; }
.answer { background: var(--card); border-radius: 10px; padding: 16px 20px 18px; min-width: 0; }
.answer p { font-size: 13px; }
.answer .role { color: var(--soft); margin-top: 12px; }
.answer pre { padding: 4px 0 0; }
.answer details { margin-top: 4px; }
.answer details pre { padding: 4px 16px 16px; }
.answer summary { font-size: 14px; }
.answer details > p { padding: 0 16px; }
.answer details details { margin: 4px 16px 8px; }
.answer pre.where { margin-top: 12px; font-size: 12px; color: var(--soft); }
.cards {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(270px, 1fr)); gap: 20px;
  margin: 28px 0 0;
}
.card { background: var(--card); border-radius: 10px; padding: 18px 20px; }
.card .name { font-size: 14px; color: var(--soft); }
.card .big { font-size: 25px; font-weight: 600; line-height: 1.35; letter-spacing: -0.01em; }
.card .note { font-size: 13px; color: var(--soft); }
.card dl { display: grid; grid-template-columns: 1fr auto; gap: 4px 12px; margin: 8px 0 0; }
.card dt { font-size: 14px; padding-left: 25px; text-indent: -25px; }
.card dd { margin: 0; font-weight: 600; text-align: right; }
.grid-of-figures {
  display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 0 40px;
  margin-top: 24px;
}
figure { margin: 0; break-inside: avoid; display: grid; grid-row: span 4;
  grid-template-rows: subgrid; gap: 0; align-content: start; }
figure.wide { grid-column: 1 / -1; }
.panels { display: grid; gap: 12px 40px; align-items: start; margin-bottom: 44px; }
.wide .panels { grid-template-columns: repeat(2, minmax(0, 1fr)); }
figure.lead { display: block; margin-top: 20px; max-width: 860px; }
.lead .panels { margin-bottom: 16px; }
figcaption { font-size: 14px; line-height: 1.45; max-width: 100ch; }
.many .panels { grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 18px 32px; }
.many svg text { font-size: 16.5px; }
.switches { position: sticky; top: 0; z-index: 1; display: flex; flex-wrap: wrap; gap: 2px 18px;
  min-width: 0; margin: 16px 0 0; padding: 8px 0; border: 0; border-bottom: 1px solid var(--faint);
  background: var(--ground); font-size: 14px; }
.switches legend { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); }
.switches label { white-space: nowrap; cursor: pointer; }
.switches input { margin: 0 7px 0 0; vertical-align: -1px; accent-color: var(--c0); }
:focus-visible { outline: 2px solid var(--c0); outline-offset: 2px; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; margin: 8px 0 12px; padding: 0;
  list-style: none; font-size: 13px; align-content: start; }
.swatch { display: inline-block; width: 18px; height: 0; margin-right: 7px; vertical-align: middle;
  border-top: 3px solid currentColor; }
.swatch.dashed { border-top-style: dashed; border-top-width: 2px; }
.swatch.again { border-top-style: dotted; }
.swatch.block { width: 12px; height: 12px; border: 0; border-radius: 2px;
  background: currentColor; }
.swatch.chance { background: var(--soft); opacity: 0.25; }
.swatch.span { background: var(--warn-edge); height: 5px; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
"""
    + CHARTS
    + """
.scroll { overflow-x: auto; margin-top: 16px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; overflow-wrap: normal; }
th, td { padding: 8px 14px 8px 0; border-bottom: 1px solid var(--faint); text-align: right;
  vertical-align: top; }
th { color: var(--soft); font-weight: 500; vertical-align: bottom; }
th:last-child, td:last-child { padding-right: 0; }
th:first-child, td:first-child, .words { text-align: left; }
td:first-child { min-width: 11em; }
td.words { overflow-wrap: anywhere; }
ul.verdicts { margin: 20px 0 0; padding: 0; list-style: none; }
.verdicts li { margin: 10px 0; padding-left: 25px; text-indent: -25px; }
.about { margin-top: 16px; font-size: 14px; }
details { margin-top: 12px; border: 1px solid var(--faint); border-radius: 8px; }
summary { padding: 10px 16px; cursor: pointer; }
pre { margin: 0; padding: 4px 16px 16px; font: 13px/1.5 ui-monospace, Menlo, Consolas,
  "DejaVu Sans Mono", monospace; white-space: pre-wrap; }
pre.commands { margin-top: 12px; padding: 14px 16px; border-radius: 8px;
  background: var(--card); overflow-wrap: anywhere; }
footer { margin-top: 56px; font-size: 13px; color: var(--soft); }
@media screen and (min-width: 761px) {
  .lead svg text { font-size: 8px; }
  .lead .line { stroke-width: 1.5; } .lead .raw { stroke-width: 0.5; }
  .lead .grid, .lead .base, .lead .reference { stroke-width: 0.6; }
}
@media screen and (min-width: 1000px) {
  .cards { grid-template-columns: 1.3fr 1fr 1fr; }
}
@media screen and (max-width: 1000px) {
  table { font-size: 13px; }
  th, td { padding-right: 9px; }
  td:first-child { min-width: 8em; }
}
@media screen and (max-width: 760px) {
  body { padding: 28px 18px 48px; }
  h1 { font-size: 25px; }
  .diagnosis dl { grid-template-columns: minmax(0, 1fr); gap: 4px; }
  .diagnosis dd { grid-column: 1; margin-bottom: 10px; }
  .cards, .grid-of-figures, .wide .panels, .many .panels {
    grid-template-columns: minmax(0, 1fr);
  }
  .cards { gap: 12px; }
  svg text, .many svg text { font-size: 15.5px; }
  .switches { flex-wrap: nowrap; overflow-x: auto; }
  table, tbody, tr, td { display: block; width: auto; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden;
    clip-path: inset(50%); }
  tr { padding: 10px 0; border-bottom: 1px solid var(--faint); }
  td, td:first-child, td:last-child { display: flex; gap: 16px; min-width: 0;
    justify-content: space-between; padding: 2px 0; border: 0; text-align: right; }
  td::before { content: attr(data-name); color: var(--soft); text-align: left; }
  td:first-child { font-weight: 600; text-align: left; }
  td:first-child::before { content: none; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 11pt; }
  .card, .banner { border: 1px solid var(--faint); break-inside: avoid; }
  .grid-of-figures { column-gap: 28px; }
  .panels { margin-bottom: 24px; }
  figure { display: block; }
  svg text { font-size: 15px; }
  table { font-size: 8.5pt; }
  th, td { padding: 5px 8px 5px 0; }
  .card .big { font-size: 18pt; }
  h2 { break-after: avoid; }
}
"""
)
