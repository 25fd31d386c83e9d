// The first page of a folder: what to make of it, its charts, its steps, and its answers by kind.
"use strict";

const overview = (() => {
  const { useLoaded } = loading;
  const QUESTIONS = {
    learnt: "Did it learn?",
    wasted: "What was wasted?",
    judge: "Did the judge help?",
    advice: "What to change next?",
  };
  const CHARTS = [
    ["accuracy", "Held-out accuracy", { form: "accuracy", exact: true }],
    ["informative", "Groups whose rewards vary", { form: "share", cover: [0] }],
    ["length", "Tokens of an answer", { cover: [0] }],
    ["truncated", "Truncated answers", { form: "share", cover: [0] }],
    ["skill", "Skill of the judge", { cover: [0] }],
  ];
  const SHOWN = 8;

  /** What to do next: a page of this folder where there is one for it, else a command. */
  const Next = ({ folder, line }) => {
    if (line.answer)
      return html`<p><a data-item href=${address.answer(folder, line.answer)}>Read it</a></p>`;
    if (line.answers)
      return html`<p><a data-item href=${address.of(folder, ["answers"], { kind: "train" })}>
        Read the answers</a></p>`;
    return line.command ? html`<${parts.Command} text=${line.command} />` : null;
  };

  const Finding = ({ folder, line }) => html`<div class=${`finding ${line.kind}`}>
    <p class="question">${QUESTIONS[line.kind]}</p>
    <div><p>${texts.visible(line.text)}</p><${Next} folder=${folder} line=${line} /></div>
  </div>`;

  const Diagnosis = ({ folder, lines }) =>
    lines.length > 0 && html`<section class="diagnosis" aria-label="Diagnosis">
      ${lines.map((line) => html`<${Finding} folder=${folder} line=${line} />`)}
    </section>`;

  /** A step; before the first there are only validation answers. */
  const toStep = (folder, step) =>
    step > 0
      ? address.of(folder, ["step", step])
      : address.of(folder, ["answers"], { kind: "eval", step });

  const Charts = ({ folder, series }) => {
    const open = (step) => {
      location.hash = toStep(folder, step);
    };
    const drawn = CHARTS.filter(([name]) => series?.[name]?.length);
    const chart = ([name, title, { exact, ...options }]) => {
      const line = { name: title, colour: "c0", points: series[name], exact };
      return html`<${charts.Chart} key=${name} title=${title} lines=${[line]} open=${open}
        ...${options} />`;
    };
    if (!drawn.length) return null;
    return html`<section class="charts" data-count=${drawn.length} aria-label="Charts">
      ${drawn.map(chart)}</section>`;
  };

  /** Answers of one kind: how many there are, and the way to them. */
  const Door = ({ folder, revision, name, values, kind = "", of }) => {
    const state = useLoaded(address.api(folder, ["answers"], values), revision);
    const found = state.value ?? state.last;
    if (!found?.total) return null;
    return html`<a class="door" data-item href=${address.of(folder, ["answers"], values)}>
      <span class=${`reward ${kind}`}>
        ${kind && html`<span aria-hidden="true">${parts.SIGNS[kind]} </span>`}${name}</span>
      <b>${parts.count(found.total)}</b>
      <span class="soft">${charts.said(found.total / of, "share")}</span>
    </a>`;
  };

  const main = (kinds) => ["train", "survey", "eval"].find((kind) => kinds?.[kind]);

  const Doors = ({ folder, revision, kind }) => {
    const whole = useLoaded(address.api(folder, ["answers"], { kind }), revision);
    const of = (whole.value ?? whole.last)?.total;
    if (!of) return null;
    const door = (name, values, mark) => html`<${Door} key=${name} folder=${folder} name=${name}
      revision=${revision} values=${{ kind, ...values }} kind=${mark} of=${of} />`;
    return html`<section><h2>Read the answers</h2><div class="doors">
      ${door("All", {}, "")}
      ${door("Right", { reward: "right" }, "right")}
      ${door("Partly right", { reward: "partial" }, "partial")}
      ${door("Wrong", { reward: "wrong" }, "wrong")}
      ${door("Truncated", { truncated: "1" }, "")}
      ${door("Failed", { failed: "1" }, "failed")}
    </div></section>`;
  };

  const cell = (value, form) => (value === undefined ? "" : charts.said(value, form));

  const Steps = ({ folder, series, all }) => {
    const columns = CHARTS.filter(([name]) => series?.[name]?.length);
    const values = new Map(columns.map(([name]) => [name, new Map(series[name])]));
    const places = columns.flatMap(([name]) => series[name].map(([step]) => step));
    const steps = [...new Set(places)].sort((a, b) => b - a);
    if (!steps.length) return null;
    const shown = all ? steps : steps.slice(0, SHOWN);
    const row = (step) => html`<tr key=${step}>
      <th scope="row"><a data-item href=${toStep(folder, step)}>${parts.count(step)}</a></th>
      ${columns.map(([name, , { form }]) => html`<td>
        ${cell(values.get(name).get(step), form)}</td>`)}
    </tr>`;
    return html`<section><h2>Steps</h2>
      <div class="scroll"><table><thead><tr><th scope="col">step</th>
        ${columns.map(([, title]) => html`<th scope="col">${title}</th>`)}</tr></thead>
      <tbody>${shown.map(row)}</tbody></table></div>
      ${steps.length > SHOWN && html`<button class="quiet"
        onClick=${() => address.change({ steps: all ? "" : "all" })}>
        ${all ? "Only the latest" : `All ${parts.count(steps.length)} steps`}</button>`}
    </section>`;
  };

  const Share = ({ name, total, of, href }) =>
    of > 0 && html`<a class="share" data-item href=${href}>
      <b>${charts.said(total / of, "share")}</b>
      <span>${name}</span><span class="soft">${parts.count(total)} of ${parts.count(of)}</span>
    </a>`;

  const OUTCOMES = {
    informative: "of the prompts vary",
    "all-fail": "of the prompts fail always",
    "all-pass": "of the prompts pass always",
  };

  /** Of a survey or an evaluation: how many answers were right, and what the prompts are. */
  const Shares = ({ folder, revision }) => {
    const total = (page, values) => {
      const state = useLoaded(address.api(folder, [page], values), revision);
      return (state.value ?? state.last)?.total;
    };
    const [answers, right] = [total("answers", {}), total("answers", { reward: "right" })];
    const prompts = total("prompts", {});
    const outcomes = Object.keys(OUTCOMES).map((outcome) => total("prompts", { outcome }));
    if ([answers, right, prompts, ...outcomes].includes(undefined)) return null;
    return html`<section class="shares">
      <${Share} name="of the answers are right" total=${right} of=${answers}
        href=${address.of(folder, ["answers"], { reward: "right" })} />
      ${outcomes.some((count) => count > 0) && Object.entries(OUTCOMES).map(([outcome, name], nth) => html`<${Share} name=${name}
        total=${outcomes[nth]} of=${prompts} href=${address.of(folder, ["prompts"], { outcome })} />`)}
    </section>`;
  };

  const written = (value) => value.toLocaleString("en", { maximumSignificantDigits: 6 });

  const Settings = ({ settings }) => {
    const given = Object.entries(settings ?? {}).map(([name, value]) => [
      name,
      texts.line(typeof value === "number" ? written(value) : String(value)),
    ]);
    return given.length > 0 && html`<section><h2>Settings</h2>
      <${parts.Facts} facts=${given} /></section>`;
  };

  const KINDS = { eval: "evaluation" };

  const Overview = ({ folder, about, query }) => {
    const kind = main(about.kinds);
    const run = about.kind === "run";
    const nothing = run && !kind && !Object.values(about.series ?? {}).some((points) => points.length);
    return html`
      <${parts.Title} over=${KINDS[about.kind] ?? about.kind}>${texts.line(about.label)}<//>
      <${Diagnosis} folder=${folder} lines=${about.diagnosis?.lines ?? []} />
      ${!run && html`<${Shares} folder=${folder} revision=${about.revision} />`}
      <${Charts} folder=${folder} series=${about.series} />
      ${kind && html`<${Doors} folder=${folder} revision=${about.revision} kind=${kind} />`}
      <${Steps} folder=${folder} series=${about.series} all=${query.steps === "all"} />
      ${nothing && html`<${parts.Empty}>${about.state === "running"
        ? "No step has ended yet. This page shows the first as soon as it has."
        : "This run has no step and no answer."}<//>`}
      <${Settings} settings=${about.settings} />`;
  };

  return { Overview };
})();
