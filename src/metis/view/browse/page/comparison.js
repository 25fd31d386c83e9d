// A comparison: what came of each variant, one curve, and its runs to open.
"use strict";

const comparison = (() => {
  const COLOURS = 6;

  const Run = ({ folders, number }) => {
    const run = folders[number];
    return run && html`<li><a data-item href=${address.of(number)}>${texts.line(run.label)}</a>
      <span class="soft"> ${run.state}</span>
      ${run.wrong && html`<span class="bad"> ${texts.line(run.wrong)}</span>`}</li>`;
  };

  const Variant = ({ variant, folders, colour }) => html`<section class="card variant">
    <h2><span class=${`swatch c${colour}`}></span>${texts.line(variant.name)}</h2>
    ${variant.line && html`<p>${texts.visible(variant.line)}</p>`}
    <ul class="plain">${variant.runs.map((number) => html`
      <${Run} key=${number} folders=${folders} number=${number} />`)}</ul>
  </section>`;

  const Curve = ({ curve, variants }) => {
    const place = (line) => Math.max(0, variants.findIndex(({ name }) => name === line.name));
    const lines = (curve?.lines ?? [])
      .map((line) => ({ ...line, colour: `c${place(line) % COLOURS}`, exact: true }))
      .sort((one, other) => place(one) - place(other));
    return lines.length > 0 && html`<section class="charts wide">
      <${charts.Chart} title="Held-out accuracy" lines=${lines} unit=${curve.axis}
        form="accuracy" />
    </section>`;
  };

  const Left = ({ name, said, runs }) => runs.length > 0 && html`<p class="banner">
    <b>${name}.</b> ${said}: ${texts.visible(runs.join("; "))}.</p>`;

  /** Runs that are not in the curve; while some still train, that is no loss. */
  const LeftOut = ({ about }) => html`
    <${Left} name="Not compared" said="Validated otherwise, and left out" runs=${about.apart} />
    <${Left} name="Not complete" said="Left out"
      runs=${about.state === "running" ? [] : about.missing} />`;

  const Comparison = ({ about, folders }) => html`
    <${parts.Title} over="comparison">${texts.line(about.label)}<//>
    <${LeftOut} about=${about} />
    <${Curve} curve=${about.curve} variants=${about.variants} />
    ${about.variants.length === 0 && html`
      <${parts.Empty}>No run of this comparison can be read yet.<//>`}
    <div class="variants">${about.variants.map((variant, nth) => html`
      <${Variant} key=${variant.name} variant=${variant} folders=${folders}
        colour=${nth % COLOURS} />`)}</div>`;

  return { Comparison };
})();
