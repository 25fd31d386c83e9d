// A step: the prompts that were chosen and those that were passed over, and what came of it.
"use strict";

const step = (() => {
  const { useLoaded } = loading;
  const SHOWN = 40;
  const METRICS = [
    ["batch/informative", "groups whose rewards vary", "share"],
    ["batch/reward", "mean reward"],
    ["eval/accuracy", "held-out accuracy", "accuracy"],
    ["rollout/tokens", "tokens generated"],
    ["rollout/cut_off", "truncated answers"],
    ["rollout/failed", "failed rollouts"],
    ["judge/spearman", "rank correlation of the judge"],
    ["judge/realised_lift", "realised lift of the judge"],
    ["actor/kl_loss", "KL"],
    ["update/gradient_norm", "gradient norm"],
    ["actor/grad_norm", "gradient norm"],
  ];

  const known = (value) => typeof value === "number";

  /** The answers of a group: a list, or in a bundle, which has no such lists, the first of them. */
  const toAnswers = (folder, kind, at, prompt) =>
    loading.bundled()
      ? address.answer(folder, { kind, step: at, prompt, rollout: 0 })
      : address.of(folder, ["answers"], { kind, step: at, prompt });

  const Rolled = ({ folder, kind, row, at }) => {
    const count = (row.rewards?.length ?? 0) + (row.failed ?? 0);
    if (!count) return null;
    return html`
      ${row.tokens?.length > 0 && html`<span class="soft">
        ${parts.count(Math.round(parts.mean(row.tokens)))} tokens each</span>`}
      ${row.truncated > 0 && html`<${parts.Chip} kind="warn">${row.truncated} truncated<//>`}
      ${row.failed > 0 && html`<${parts.Chip} kind="bad">${row.failed} failed<//>`}
      <a class="over-card" href=${toAnswers(folder, kind, at, row.prompt)}>
        ${parts.many(count, "answer")}</a>`;
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

  /** What most of some texts are, which is then said once; empty where there is no such text. */
  const common = (all) => {
    const counts = new Map();
    for (const text of all) counts.set(text, (counts.get(text) ?? 0) + 1);
    const most = [...counts].find(([, count]) => count > 1 && count > all.length / 2);
    return most ? most[0] : "";
  };

  /** A prediction and what came of it. */
  const Judged = ({ row, whole, children }) => {
    const [predicted, realised] = [row.score, row.variance].map(known);
    return html`<div class="judged">
      ${(predicted || realised) && html`
        <${charts.Bar} predicted=${row.score} realised=${row.variance} whole=${whole} />
        <span class="values">${predicted && html`<b>${parts.number(row.score)}</b>`}
          ${predicted && realised && " → "}${realised && parts.number(row.variance)}</span>`}
      <${parts.Marks} rewards=${row.rewards} failed=${row.failed} />
      ${children}
    </div>`;
  };

  /** One candidate: its text first, or in the history of a prompt its step. */
  const Candidate = ({ folder, kind, row, at, whole, reasons, shared = "", history = false }) => {
    const reason = why(row, reasons);
    const rolled = row.outcome !== "not rolled out";
    const category = !history && html`<${parts.Category} category=${row.category} />`;
    const href = address.of(folder, history ? ["step", at] : ["prompt", row.prompt]);
    return html`<li class="card candidate">
      <a class="whole" data-item href=${href}>
        ${history ? `Step ${parts.count(at)}` : html`<${parts.PromptText} of=${row} />`}</a>
      <${Judged} row=${row} whole=${whole}>${!rolled && category}<//>
      ${rolled && html`<div class="chips">
        <${parts.Outcome} outcome=${row.outcome} />
        ${category}
        <${Rolled} folder=${folder} kind=${kind} row=${row} at=${at} />
      </div>`}
      ${reason && reason !== shared && html`<p class="soft why">${reason}</p>`}
    </li>`;
  };

  const Legend = ({ rows }) => html`<p class="soft key-to-bars">
    ${rows.some((row) => known(row.score)) && html`
      <span><span class="sample fill"></span> predicted variance of the rewards</span>`}
    <span><span class="sample tick"></span> realised variance</span>
    <span><span class="marks"><span class="right">●</span></span> right</span>
    <span><span class="marks"><span class="partial">◐</span></span> partly</span>
    <span><span class="marks"><span class="wrong">○</span></span> wrong</span>
    <span><span class="marks"><span class="failed">×</span></span> failed</span>
  </p>`;

  const Side = ({ name, rows, empty, ...given }) => {
    const shared = common(rows.map((row) => why(row, given.reasons)));
    const card = (row) =>
      html`<${Candidate} key=${row.prompt} row=${row} shared=${shared} ...${given} />`;
    return html`<section class="side">
      <h2>${name} <small class="soft">${parts.count(rows.length)}</small></h2>
      ${shared && html`<p class="soft shared">${shared}</p>`}
      ${rows.length === 0 && html`<${parts.Empty}>${empty}<//>`}
      <${parts.Cards} items=${rows} most=${SHOWN} render=${card} />
    </section>`;
  };

  /** The two sides of a step; a survey or an evaluation chooses nothing. */
  const Sides = ({ run, rows, ...given }) => {
    if (!run) return html`<${Side} name="Prompts" rows=${rows} empty="There is none." ...${given} />`;
    const passed = rows.filter((row) => !row.chosen);
    return html`<div class=${passed.length ? "sides" : "alone"}>
      <${Side} name="Chosen" rows=${rows.filter((row) => row.chosen)}
        empty="Nothing was chosen in this step." ...${given} />
      ${passed.length > 0 && html`<${Side} name="Passed over" rows=${passed} ...${given} />`}
      ${passed.length === 0 && html`<p class="soft">
        No candidate was passed over: the curriculum rolled out all that it drew.</p>`}
    </div>`;
  };

  const Exemplars = ({ folder, exemplars }) => exemplars?.length > 0 && html`<details class="card">
    <summary>Examples that the judge was shown (${exemplars.length})</summary>
    <ul class="plain">${exemplars.map((each) => html`<li>
      <a href=${address.of(folder, ["prompt", each.prompt])}><${parts.PromptText} of=${each} /></a>
      <span class="soft"> shown as ${parts.short(each.value)}; its variance was
        ${" "}${parts.number(each.variance)} in step ${each.outcome_step}</span>
    </li>`)}</ul>
  </details>`;

  const Metrics = ({ metrics }) => {
    if (!metrics) return null;
    const main = METRICS.filter(([name]) => known(metrics[name])).map(
      ([name, words, form]) => [words, charts.said(metrics[name], form)],
    );
    const all = Object.entries(metrics).filter(([, value]) => value !== null);
    return html`<${parts.Facts} facts=${main} />
      ${all.length > 0 && html`<details class="more"><summary>All metrics (${all.length})</summary>
        <${parts.Facts} facts=${all.map(([name, value]) => [name, parts.short(value)])} />
      </details>`}`;
  };

  const ORDERS = {
    prediction: (row) => -(row.score ?? -1),
    outcome: (row) => -(row.variance ?? -1),
    surprise: (row) =>
      known(row.variance) && known(row.score) ? -Math.abs(row.variance - row.score) : 1,
  };
  const ORDERED = ["outcome", ["surprise", "surprise: prediction against outcome"]];

  const Tools = ({ folder, kind, at, tested, predicted, query }) => {
    const list = (name, of) => html`<a class="button"
      href=${address.of(folder, ["answers"], { kind: of, step: at })}>${name}</a>`;
    return html`<div class="filters">
      <${parts.Select} name="sort" label="Order by" any=${predicted ? "prediction" : "name"}
        values=${predicted ? ORDERED : ["outcome"]} query=${query} />
      ${list("All answers of this step", kind)}
      ${tested && list("Validation answers", "eval")}
    </div>`;
  };

  const Step = ({ folder, about, parts: [number], query }) => {
    const [at, run] = [Number(number), about.kind === "run"];
    const state = useLoaded(address.api(folder, ["steps", number]), about.revision);
    const found = state.value;
    const link = (other) =>
      other >= 1 && other <= (about.last ?? 0) ? address.of(folder, ["step", other], query) : null;
    const order = ORDERS[query.sort] ?? ORDERS.prediction;
    const rows = (found?.rows ?? []).slice().sort((a, b) => order(a) - order(b));
    const given = { folder, at, whole: charts.whole(rows), reasons: about.reasons };
    const kind = run ? "train" : about.kind;
    return html`
      <div class="heading">
        <${parts.Title} over=${texts.line(about.label)}>
          ${run ? `Step ${number}` : "All prompts"}
          ${run && about.last > 0 && html`<small class="soft"> of ${parts.count(about.last)}</small>`}
        <//>
        ${run && html`<${parts.Beside} previous=${link(at - 1)} next=${link(at + 1)} what="step" />`}
      </div>
      <${parts.State} state=${state} />
      ${found && html`
        <${Metrics} metrics=${found.metrics} />
        <${Tools} folder=${folder} kind=${kind} at=${at} query=${query}
          tested=${known(found.metrics?.["eval/accuracy"])}
          predicted=${rows.some((row) => known(row.score))} />
        ${rows.length === 0 && html`<${parts.Empty}>
          Which prompts this step chose and passed over was not kept.<//>`}
        ${rows.length > 0 && html`<${Legend} rows=${rows} />
          <${Sides} key=${number} run=${run} rows=${rows} kind=${kind} ...${given} />`}
        <${Exemplars} folder=${folder} exemplars=${found.exemplars} />`}`;
  };

  return { Candidate, Judged, Legend, Step, meaning };
})();
