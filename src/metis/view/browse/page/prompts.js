// The prompts of a folder, and one of them: its steps, its answers, and what was predicted like it.
"use strict";

const prompts = (() => {
  const { useLoaded } = loading;
  const SORTS = [["-score", "highest prediction"], ["score", "lowest prediction"], ["-chosen", "most often chosen"],
    ["-seen", "most often seen"], ["mean", "lowest reward"], ["-mean", "highest reward"], ["prompt", "name"]];
  const FILTERS = ["q", "category", "outcome", "sort", "page"];

  const given = (query, names) => Object.fromEntries(names.map((name) => [name, query[name] ?? ""]));

  const Item = ({ folder, item, whole }) => html`<li class="card candidate">
    <a class="whole" data-item href=${address.of(folder, ["prompt", item.prompt])}>
      <span dir="auto">${texts.line(item.text || item.prompt)}</span></a>
    ${typeof item.score === "number" && html`<div class="judged">
      <${charts.Bar} predicted=${item.score} whole=${whole} />
      <span class="values"><b>${parts.number(item.score)}</b></span>
    </div>`}
    <div class="chips"><${parts.Outcome} outcome=${item.outcome} />
      <${parts.Category} category=${item.category} />
      <span class="soft">${typeof item.mean === "number" ? `mean reward ${parts.number(item.mean, 2)} · ` : ""}
        seen ${parts.many(item.seen, "time")}, chosen ${parts.count(item.chosen)}</span>
    </div>
  </li>`;

  const Prompts = ({ folder, about, query }) => {
    const state = useLoaded(address.api(folder, ["prompts"], given(query, FILTERS)), about.revision);
    const found = state.value ?? state.last;
    const { category = [], outcome = [] } = about.filters ?? {};
    return html`<${parts.Title} over=${texts.line(about.label)}>Prompts<//>
      ${!loading.bundled() && html`<form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
        <${parts.Field} name="q" label="Text" query=${query} placeholder="in the prompts" />
        ${category.length > 1 && html`<${parts.Select} name="category" label="Category" values=${category} query=${query} />`}
        <${parts.Select} name="outcome" label="Last outcome" values=${outcome} query=${query} />
        <${parts.Select} name="sort" label="Order by" any="latest" values=${SORTS} query=${query} />
      </form>`}
      <${parts.State} state=${state} />
      ${found && html`<div class=${state.busy ? "stale" : ""}>
        <${parts.Pager} found=${found} one="prompt" />
        ${found.items.length === 0 && html`<${parts.Empty}>No prompt is left by these filters.<//>`}
        <ul class="cards">${found.items.map((item) => html`<${Item} key=${item.prompt} folder=${folder} item=${item}
          whole=${charts.whole(found.items)} />`)}</ul>
        ${found.items.length > 10 && html`<${parts.Pager} found=${found} one="prompt" />`}
      </div>`}`;
  };

  const History = ({ folder, found, reasons }) => {
    const rows = found.history.slice().sort((one, other) => one.step - other.step);
    const points = (value) => rows.map((row) => [row.step, value(row)]).filter(([, y]) => typeof y === "number");
    const lines = [
      { name: "predicted", colour: "c0", exact: true, points: points((row) => row.score) },
      { name: "realised", colour: "c1", exact: true, points: points((row) => row.variance) },
      { name: "mean reward", colour: "c2", exact: true, dashed: true,
        points: points((row) => (row.rewards?.length ? parts.mean(row.rewards) : undefined)) },
      { name: "validation", colour: "c3", exact: true, dashed: true, points: found.evals ?? [] },
    ];
    const open = (at) => {
      location.hash = address.of(folder, ["step", at]);
    };
    const many = lines.some((line) => line.points.length > 1);
    return html`<section><h2>Over the steps <small class="soft">${parts.many(rows.length, "step")}</small></h2>
      ${many && html`<div class="charts wide"><${charts.Chart} title="Variance of its rewards" lines=${lines} cover=${[0]} open=${open} /></div>`}
      ${rows.length === 0 && html`<${parts.Empty}>It was a candidate in no step.<//>`}
      ${rows.length > 0 && html`<${step.Legend} />`}
      <ul class="cards">${rows.slice().reverse().map((row) => html`<${step.Candidate} key=${row.step} folder=${folder} row=${row}
        at=${row.step} whole=${charts.whole(rows)} reasons=${reasons} showStep />`)}</ul>
    </section>`;
  };

  const Neighbours = ({ folder, neighbours }) => neighbours?.length > 0 && html`<section>
    <h2>Predicted alike <small class="soft">in step ${parts.count(neighbours[0].step)}</small></h2>
    <ul class="cards">${neighbours.map((each) => html`<li key=${each.prompt} class="card candidate">
      <a class="whole" data-item href=${address.of(folder, ["prompt", each.prompt])}>
        <span dir="auto">${texts.line(each.text || each.prompt)}</span></a>
      <div class="judged"><${charts.Bar} predicted=${each.score} whole=${charts.whole(neighbours)} />
        <span class="values"><b>${parts.number(each.score)}</b></span></div>
    </li>`)}</ul>
  </section>`;

  const Answers = ({ folder, found }) => html`<section>
    <h2>Answers <small class="soft">${found.answers.length >= 200 ? "the latest 200" : parts.count(found.answers.length)}</small></h2>
    ${found.answers.length > 0 && !loading.bundled() && html`<p><a href=${address.of(folder, ["answers"], { prompt: found.prompt })}>
      Search and filter them</a></p>`}
    ${found.answers.length === 0 && html`<${parts.Empty}>No answer to it was kept.<//>`}
    <ul class="cards">${found.answers.map((item) => html`<${answers.Item}
      key=${`${item.kind}/${item.step}/${item.rollout}`} folder=${folder} item=${{ ...item, prompt: found.prompt }} />`)}</ul>
  </section>`;

  const Prompt = ({ folder, about, parts: [id] }) => {
    const state = useLoaded(address.api(folder, ["prompt"], { id }), about.revision);
    const found = state.value;
    return html`<${parts.Title} over=${texts.line(about.label)}>Prompt <small class="soft">${texts.line(id ?? "")}</small><//>
      <${parts.State} state=${state} />
      ${found && html`
        <div class="chips"><${parts.Category} category=${found.category} />
          ${typeof found.difficulty === "number" && html`<span class="soft">difficulty ${parts.short(found.difficulty)}</span>`}</div>
        <div class="card said"><${texts.Text} text=${found.text ?? ""} /></div>
        <${History} folder=${folder} found=${found} reasons=${about.reasons} />
        <div class="sides"><${Answers} folder=${folder} found=${found} />
          <${Neighbours} folder=${folder} neighbours=${found.neighbours} /></div>`}`;
  };

  return { Prompt, Prompts };
})();
