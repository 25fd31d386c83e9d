// The prompts of a folder, and one of them: its steps, its answers, and what was predicted like it.
"use strict";

const prompts = (() => {
  const { useLoaded } = loading;
  const SHOWN = 8;
  const BY_PREDICTION = [
    ["-score", "highest prediction"],
    ["score", "lowest prediction"],
  ];
  const SORTS = [
    ["-chosen", "most often chosen"],
    ["-seen", "most often seen"],
    ["mean", "lowest reward"],
    ["-mean", "highest reward"],
    ["prompt", "name"],
  ];
  const WORDS = { q: (value) => `“${value}”`, category: String, outcome: String };
  const FILTERS = ["q", "category", "outcome", "sort", "page"];

  const Item = ({ folder, item, whole }) => html`<li class="card candidate">
    <a class="whole" data-item href=${address.of(folder, ["prompt", item.prompt])}>
      <${parts.PromptText} of=${item} /></a>
    ${typeof item.score === "number" && html`
      <${step.Judged} row=${{ score: item.score }} whole=${whole} />`}
    <div class="chips">
      <${parts.Outcome} outcome=${item.outcome} />
      <${parts.Category} category=${item.category} />
      <span class="soft">
        ${typeof item.mean === "number" && `mean reward ${parts.number(item.mean, 2)} · `}
        seen ${parts.many(item.seen, "time")}, chosen ${parts.count(item.chosen)}</span>
    </div>
  </li>`;

  const Filters = ({ query, about }) => {
    const { category = [], outcome = [] } = about.filters ?? {};
    const stop = (event) => event.preventDefault();
    return html`<form class="filters" role="search" onSubmit=${stop}>
      <${parts.Field} name="q" label="Text" query=${query} placeholder="in the prompts" />
      ${category.length > 1 && html`
        <${parts.Select} name="category" label="Category" values=${category} query=${query} />`}
      <${parts.Select} name="outcome" label="Last outcome" values=${outcome} query=${query} />
      <${parts.Select} name="sort" label="Order by" any="latest"
        values=${[...(about.predicted ? BY_PREDICTION : []), ...SORTS]} query=${query} />
    </form>`;
  };

  const Prompts = ({ folder, about, query }) => {
    const given = Object.fromEntries(FILTERS.map((name) => [name, query[name]]));
    const state = useLoaded(address.api(folder, ["prompts"], given), about.revision);
    const found = state.value ?? state.last;
    const item = (each) => html`<${Item} key=${each.prompt} folder=${folder} item=${each}
      whole=${charts.whole(found.items)} />`;
    return html`<${parts.Title} over=${texts.line(about.label)}>Prompts<//>
      ${!loading.bundled() && html`<${Filters} query=${query} about=${about} />`}
      <${parts.Narrowed} query=${query} words=${WORDS} />
      <${parts.State} state=${state} />
      ${found && html`<div class=${state.busy ? "stale" : ""}>
        <${parts.Pager} found=${found} one="prompt" />
        ${found.items.length === 0 && html`<${parts.Empty}>No prompt is left by these filters.<//>`}
        <ul class="cards">${found.items.map(item)}</ul>
        ${found.items.length > 10 && html`<${parts.Pager} found=${found} one="prompt" />`}
      </div>`}`;
  };

  const Curves = ({ folder, rows, evals }) => {
    const points = (value) =>
      rows.map((row) => [row.step, value(row)]).filter(([, y]) => typeof y === "number");
    const reward = (row) => (row.rewards?.length ? parts.mean(row.rewards) : undefined);
    const lines = [
      { name: "predicted", colour: "c0", points: points((row) => row.score) },
      { name: "realised", colour: "c1", points: points((row) => row.variance) },
      { name: "mean reward", colour: "c2", dashed: true, points: points(reward) },
      { name: "validation", colour: "c3", dashed: true, points: evals },
    ].map((line) => ({ ...line, exact: true }));
    const open = (at) => {
      location.hash = address.of(folder, ["step", at]);
    };
    const many = lines.some((line) => line.points.length > 1);
    return many && html`<div class="charts wide">
      <${charts.Chart} title="Variance of its rewards" lines=${lines} cover=${[0]} open=${open} />
    </div>`;
  };

  const History = ({ folder, about, found }) => {
    const rows = found.history.slice().sort((one, other) => one.step - other.step);
    const run = about.kind === "run";
    const card = (row) => html`<${step.Candidate} key=${row.step} folder=${folder} row=${row}
      kind=${run ? "train" : about.kind} at=${row.step} whole=${charts.whole(rows)}
      reasons=${about.reasons} history />`;
    return html`<section>
      <h2>Over the steps <small class="soft">${parts.many(rows.length, "step")}</small></h2>
      <${Curves} folder=${folder} rows=${rows} evals=${found.evals ?? []} />
      ${rows.length === 0 && html`<${parts.Empty}>It was a candidate in no step.<//>`}
      ${rows.length > 0 && html`<${step.Legend} rows=${rows} />`}
      <${parts.Cards} items=${rows.slice().reverse()} most=${SHOWN} render=${card} />
    </section>`;
  };

  const Neighbours = ({ folder, neighbours }) => neighbours?.length > 0 && html`<section>
    <h2>Predicted alike
      ${" "}<small class="soft">in step ${parts.count(neighbours[0].step)}</small></h2>
    <ul class="cards">${neighbours.map((each) => html`<li key=${each.prompt} class="card candidate">
      <a class="whole" data-item href=${address.of(folder, ["prompt", each.prompt])}>
        <${parts.PromptText} of=${each} /></a>
      <${step.Judged} row=${{ score: each.score }} whole=${charts.whole(neighbours)} />
    </li>`)}</ul>
  </section>`;

  const Answers = ({ folder, found }) => {
    const count = found.answers.length;
    const item = (each, nth) => html`<${answers.Item}
      key=${`${each.kind}/${each.step}/${each.rollout}`} folder=${folder}
      item=${{ ...each, prompt: found.prompt, text: "" }} search=${{ prompt: found.prompt }}
      at=${loading.bundled() ? undefined : nth} />`;
    return html`<section>
      <h2>Answers
        ${" "}<small class="soft">${count >= 200 ? "the latest 200" : parts.count(count)}</small></h2>
      ${count > 0 && !loading.bundled() && html`<p class="shared">
        <a href=${address.of(folder, ["answers"], { prompt: found.prompt })}>
          Search and filter them</a></p>`}
      ${count === 0 && html`<${parts.Empty}>No answer to it was kept.<//>`}
      <${parts.Cards} items=${found.answers} most=${2 * SHOWN} render=${item} />
    </section>`;
  };

  const Prompt = ({ folder, about, parts: [id = ""] }) => {
    const state = useLoaded(address.api(folder, ["prompt"], { id }), about.revision);
    const found = state.value;
    return html`<${parts.Title} over=${texts.line(about.label)}>
        Prompt <small class="soft id">${texts.line(id)}</small><//>
      <${parts.State} state=${state} />
      ${found && html`
        <div class="chips">
          <${parts.Category} category=${found.category} />
          ${typeof found.difficulty === "number" && html`<span class="soft">
            difficulty ${parts.short(found.difficulty)}</span>`}
        </div>
        <div class="card said"><${texts.Text} text=${found.text ?? ""} /></div>
        ${about.kind === "run" && html`
          <${History} folder=${folder} about=${about} found=${found} />`}
        <div class="sides">
          <${Answers} folder=${folder} found=${found} />
          <${Neighbours} folder=${folder} neighbours=${found.neighbours} />
        </div>`}`;
  };

  return { Prompt, Prompts };
})();
