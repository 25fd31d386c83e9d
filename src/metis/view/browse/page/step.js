// A step: the prompts that were chosen and those that were passed over, and what came of it.
"use strict";

const step = (() => {
  const { useLoaded } = loading;
  const { useState } = preactHooks;
  const SHOWN = 40;
  const METRICS = [
    ["batch/informative", "groups whose rewards vary", true],
    ["batch/reward", "mean reward"],
    ["eval/accuracy", "validation accuracy", true],
    ["rollout/tokens", "tokens generated"],
    ["rollout/cut_off", "truncated answers"],
    ["rollout/failed", "failed rollouts"],
    ["judge/spearman", "rank correlation of the judge"],
    ["judge/realised_lift", "realised lift of the judge"],
    ["actor/kl_loss", "KL"],
    ["update/gradient_norm", "gradient norm"],
    ["actor/grad_norm", "gradient norm"],
  ];

  const Rolled = ({ folder, row, at }) => {
    const answers = (row.rewards?.length ?? 0) + (row.failed ?? 0);
    if (!answers) return null;
    const lengths = row.tokens?.length ? `${parts.count(Math.round(parts.mean(row.tokens)))} tokens each` : "";
    const href = loading.bundled()
      ? address.answer(folder, { kind: "train", step: at, prompt: row.prompt, rollout: 0 })
      : address.of(folder, ["answers"], { kind: "train", step: at, prompt: row.prompt });
    return html`<span class="soft">${lengths}</span>
      ${row.truncated > 0 && html`<${parts.Chip} kind="warn">${row.truncated} truncated<//>`}
      ${row.failed > 0 && html`<${parts.Chip} kind="bad">${row.failed} failed<//>`}
      <a class="over-card" href=${href}>${parts.many(answers, "answer")}</a>`;
  };

  /** What a reason means: of one such as `arm level-3`, what is said of `arm <label>`. */
  const meaning = (reason, reasons) => {
    if (!reason || reasons?.[reason]) return reasons?.[reason] ?? "";
    const [word] = reason.split(" ");
    const pattern = Object.keys(reasons ?? {}).find((key) => key.startsWith(`${word} <`));
    return texts.line(pattern ? `${reason}: ${reasons[pattern]}` : reason);
  };

  /** Why a candidate was chosen or not. */
  const why = (row, reasons) =>
    row.failure ? `The judge failed: ${texts.line(row.failure)}` : meaning(row.reason, reasons);

  /** What most of some texts are; said once, above them. */
  const common = (all) => all.find((text) => all.filter((each) => each === text).length > all.length / 2 && all.length > 1) ?? "";

  /** One candidate, its text first. */
  const Candidate = ({ folder, row, at, whole, reasons, shared = "", showStep = false }) => {
    const reason = why(row, reasons);
    const rolled = row.outcome && row.outcome !== "not rolled out";
    const href = showStep
      ? address.of(folder, ["step", at])
      : address.of(folder, ["prompt", row.prompt]);
    return html`<li class="card candidate">
      <a class="whole" data-item href=${href}>
        ${showStep ? `Step ${parts.count(at)}` : html`<span dir="auto">${texts.line(row.text || row.prompt)}</span>`}
      </a>
      <div class="judged">
        <${charts.Bar} predicted=${row.score} realised=${row.variance} whole=${whole} />
        <span class="values"><b>${parts.number(row.score)}</b>
          ${typeof row.variance === "number" && html` → ${parts.number(row.variance)}`}</span>
        <${parts.Marks} rewards=${row.rewards} failed=${row.failed} />
        ${!rolled && !showStep && html`<${parts.Category} category=${row.category} />`}
      </div>
      ${rolled && html`<div class="chips">
        <${parts.Outcome} outcome=${row.outcome} />
        ${!showStep && html`<${parts.Category} category=${row.category} />`}
        <${Rolled} folder=${folder} row=${row} at=${at} />
      </div>`}
      ${reason && reason !== shared && html`<p class="soft why">${reason}</p>`}
    </li>`;
  };

  const Legend = () => html`<p class="soft key-to-bars">
    <span class="sample fill"></span> predicted variance of the rewards
    <span class="sample tick"></span> realised
    <span class="marks"><span class="right">●</span></span> right
    <span class="marks"><span class="partial">◐</span></span> partly
    <span class="marks"><span class="wrong">○</span></span> wrong
    <span class="marks"><span class="failed">×</span></span> failed
  </p>`;

  const Side = ({ name, rows, empty, ...given }) => {
    const [shown, setShown] = useState(SHOWN);
    const shared = common(rows.map((row) => why(row, given.reasons)));
    return html`<section class="side"><h2>${name} <small class="soft">${parts.count(rows.length)}</small></h2>
      ${shared && html`<p class="soft shared">${shared}</p>`}
      ${rows.length === 0 && html`<${parts.Empty}>${empty}<//>`}
      <ul class="cards">${rows.slice(0, shown).map((row) => html`<${Candidate} key=${row.prompt} row=${row} shared=${shared} ...${given} />`)}</ul>
      ${rows.length > shown && html`<button class="quiet" onClick=${() => setShown(shown + 4 * SHOWN)}>
        Show more: ${parts.count(rows.length - shown)} are left</button>`}
    </section>`;
  };

  const Exemplars = ({ folder, exemplars }) => exemplars?.length > 0 && html`<details class="card">
    <summary>Examples that the judge was shown (${exemplars.length})</summary>
    <ul class="plain">${exemplars.map((each) => html`<li>
      <a href=${address.of(folder, ["prompt", each.prompt])}><span dir="auto">${texts.line(each.text || each.prompt)}</span></a>
      <span class="soft"> shown as ${parts.short(each.value)}; its variance was ${parts.number(each.variance)} in step ${each.outcome_step}</span>
    </li>`)}</ul>
  </details>`;

  const Metrics = ({ metrics }) => {
    if (!metrics) return null;
    const known = METRICS.filter(([name]) => typeof metrics[name] === "number");
    const all = Object.entries(metrics).filter(([, value]) => value !== null);
    return html`<${parts.Facts} facts=${known.map(([name, words, percent]) => [words, charts.said(metrics[name], percent)])} />
      ${all.length > 0 && html`<details class="more"><summary>All metrics (${all.length})</summary>
        <${parts.Facts} facts=${all.map(([name, value]) => [name, parts.short(value)])} /></details>`}`;
  };

  const ORDERS = {
    prediction: (row) => -(row.score ?? -1),
    outcome: (row) => -(row.variance ?? -1),
    surprise: (row) => (typeof row.variance === "number" && typeof row.score === "number"
      ? -Math.abs(row.variance - row.score) : 1),
  };

  const Step = ({ folder, about, parts: [number], query }) => {
    const at = Number(number);
    const state = useLoaded(address.api(folder, ["steps", number]), about.revision);
    const found = state.value;
    const link = (other) =>
      other >= 1 && other <= (about.last ?? 0) ? address.of(folder, ["step", other], query) : null;
    const order = ORDERS[query.sort] ?? ORDERS.prediction;
    const rows = (found?.rows ?? []).slice().sort((a, b) => order(a) - order(b));
    const given = { folder, at, whole: charts.whole(rows), reasons: about.reasons };
    return html`
      <div class="heading"><${parts.Title} over=${texts.line(about.label)}>Step ${number}
        ${about.last ? html`<small class="soft"> of ${parts.count(about.last)}</small>` : ""}<//>
        <${parts.Beside} previous=${link(at - 1)} next=${link(at + 1)} what="step" /></div>
      <${parts.State} state=${state} />
      ${found && html`
        <${Metrics} metrics=${found.metrics} />
        <div class="filters"><${parts.Select} name="sort" label="Order by" any="prediction"
          values=${["outcome", ["surprise", "surprise: prediction against outcome"]]} query=${query} />
          ${!loading.bundled() && html`<a class="button"
            href=${address.of(folder, ["answers"], { kind: "train", step: at })}>All answers of this step</a>`}
          ${!loading.bundled() && typeof found.metrics?.["eval/accuracy"] === "number" && html`<a class="button"
            href=${address.of(folder, ["answers"], { kind: "eval", step: at })}>Validation answers</a>`}</div>
        ${rows.length === 0 && html`<${parts.Empty}>Which prompts this step chose and passed over was not kept.<//>`}
        ${rows.length > 0 && html`<${Legend} />
        <div class="sides">
          <${Side} key=${`chosen-${at}`} name="Chosen" rows=${rows.filter((row) => row.chosen)} empty="Nothing was chosen in this step." ...${given} />
          <${Side} key=${`passed-${at}`} name="Passed over" rows=${rows.filter((row) => !row.chosen)}
            empty="No candidate was passed over: this curriculum trains on all that it draws." ...${given} />
        </div>`}
        <${Exemplars} folder=${folder} exemplars=${found.exemplars} />`}`;
  };

  return { Candidate, Legend, Step, meaning };
})();
