// All answers of a folder: full-text search, filters, and pages of what they find.
"use strict";

const answers = (() => {
  const { useLoaded } = loading;
  const { useEffect, useState } = preactHooks;
  const KINDS = [
    ["train", "training"],
    ["eval", "validation"],
    ["survey", "survey"],
    ["judge", "judgments"],
  ];
  const REWARDS = ["right", "partial", "wrong"];
  const SORTS = [
    ["step", "oldest"],
    ["-tokens", "longest"],
    ["tokens", "shortest"],
    ["-reward", "highest reward"],
    ["reward", "lowest reward"],
  ];
  const MORE = ["kind", "step", "category", "reason", "sort"];
  const FILTERS = [
    ...["kind", "q", "step", "from", "to", "prompt", "category", "outcome", "reward"],
    ...["truncated", "failed", "reason", "sort"],
  ];
  const AGAIN = 250;

  /** What the address asks for, without its page. */
  const filters = (query) => {
    const given = FILTERS.filter((name) => query[name]).map((name) => [name, query[name]]);
    return Object.fromEntries(given);
  };

  const place = (item) => {
    const kind = item.kind === "train" ? "" : `${item.kind} · `;
    const length = typeof item.tokens === "number" ? ` · ${parts.many(item.tokens, "token")}` : "";
    return `${kind}step ${parts.count(item.step)} · answer ${parts.count(item.rollout)}${length}`;
  };

  /** One answer; `at` is its place in a search that can be walked through. */
  const Item = ({ folder, item, search, at }) => {
    const href = address.answer(folder, item, at === undefined ? {} : { ...search, at });
    const snippet = html`<${texts.Snippet} text=${item.snippet || "(empty)"} hits=${item.hits} />`;
    return html`<li class="card answer">
      <a class=${item.text ? "whole one-line" : "whole"} data-item href=${href}>
        ${item.text ? html`<${parts.PromptText} of=${item} />` : snippet}</a>
      ${item.text && html`<p class="snippet">${snippet}</p>`}
      <div class="chips">
        <${parts.Reward} reward=${item.reward} score=${item.score} />
        <${parts.Troubles} truncated=${item.truncated} failure=${item.failure} />
        <span class="soft">${place(item)}</span>
      </div>
    </li>`;
  };

  const More = ({ query, about, kind }) => {
    const { category = [], reason = [] } = about.filters ?? {};
    const select = (name, label, values) =>
      html`<${parts.Select} name=${name} label=${label} values=${values} query=${query} />`;
    return html`<details class="more" open=${MORE.some((name) => query[name])}>
      <summary>More filters</summary>
      <div class="filters">
        ${kind}
        <${parts.Field} name="step" label="Step" type="number" query=${query} placeholder="all" />
        ${category.length > 1 && select("category", "Category", category)}
        ${reason.length > 0 && select("reason", "Chosen as", reason)}
        <${parts.Select} name="sort" label="Order by" any="newest" values=${SORTS} query=${query} />
      </div>
    </details>`;
  };

  const Filters = ({ query, about }) => {
    const kinds = KINDS.filter(([kind]) => about.kinds?.[kind]);
    const select = (name, label, values) =>
      html`<${parts.Select} name=${name} label=${label} values=${values} query=${query} />`;
    const reward = select("reward", "Reward", REWARDS);
    const kind = kinds.length > 1 && select("kind", "Kind", kinds);
    if (loading.bundled())
      return html`<form class="filters">${reward}${kind}</form>
        <p class="soft">A bundle has no search: <code>metis view</code> on the folder has.</p>`;
    return html`<form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <${parts.Field} name="q" label="Text" query=${query} placeholder="in all answers" />
      ${reward}
      ${select("outcome", "Outcome of its group", about.filters?.outcome ?? [])}
      <div class="toggles">
        <${parts.Toggle} name="truncated" label="truncated" query=${query} />
        <${parts.Toggle} name="failed" label="failed" query=${query} />
      </div>
      <${More} query=${query} about=${about} kind=${kind} />
    </form>`;
  };

  /** Filters in words, by their names. */
  const WORDS = {
    ...{ kind: (value) => KINDS.find(([kind]) => kind === value)?.[1] ?? value },
    ...{ q: (value) => `“${value}”`, prompt: "of the prompt", step: "step", from: "from step" },
    ...{ to: "to step", category: String, outcome: String, reward: String, reason: "chosen as" },
    ...{ truncated: () => "truncated", failed: () => "failed" },
  };

  const none = (about) => {
    if (about.indexed && !about.indexed.done) return "No such answer has been read yet.";
    if (!Object.keys(about.kinds ?? {}).length) return "No answer was kept in this folder.";
    return "No answer is left by these filters.";
  };

  /** A page of a search; a search that is still looked at is asked for again. */
  const useFound = (path, revision) => {
    const [goes, setGoes] = useState(0);
    const state = useLoaded(path, `${revision} ${goes}`);
    useEffect(() => {
      if (state.value?.exact !== false) return undefined;
      const timer = setTimeout(() => setGoes(goes + 1), AGAIN);
      return () => clearTimeout(timer);
    }, [state.value]);
    return state;
  };

  const Answers = ({ folder, about, query }) => {
    const search = filters(query);
    const path = address.api(folder, ["answers"], { ...search, page: query.page });
    const state = useFound(path, about.revision);
    const found = state.value ?? state.last;
    const item = (each, nth) => html`<${Item} folder=${folder} item=${each} search=${search}
      key=${`${each.kind}/${each.step}/${each.prompt}/${each.rollout}`}
      at=${found.page * found.size + nth} />`;
    return html`<${parts.Title} over=${texts.line(about.label)}>Answers<//>
      <${Filters} query=${query} about=${about} />
      <${parts.Narrowed} query=${query} words=${WORDS} />
      <${parts.State} state=${state} />
      ${found && html`<div class=${state.busy ? "stale" : ""}>
        <${parts.Pager} found=${found} one="answer" />
        ${found.items.length === 0 && html`<${parts.Empty}>${none(about)}<//>`}
        <ul class="cards">${found.items.map(item)}</ul>
        ${found.items.length > 10 && html`<${parts.Pager} found=${found} one="answer" />`}
      </div>`}`;
  };

  return { Answers, Item, filters };
})();
