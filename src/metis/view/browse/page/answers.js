// All answers of a folder: full-text search, filters, and pages of what they find.
"use strict";

const answers = (() => {
  const { useLoaded } = loading;
  const { useEffect, useState } = preactHooks;
  const KINDS = [["train", "training"], ["eval", "validation"], ["survey", "survey"], ["judge", "judgments"]];
  const REWARDS = ["right", "partial", "wrong"];
  const SORTS = [["step", "oldest"], ["-tokens", "longest"], ["tokens", "shortest"], ["-reward", "highest reward"], ["reward", "lowest reward"]];
  const MORE = ["kind", "step", "category", "reason", "sort"];
  const AGAIN = 250;
  const FILTERS = ["kind", "q", "step", "from", "to", "prompt", "category", "outcome", "reward", "truncated", "failed", "reason", "sort"];

  /** What the address asks for, without its page. */
  const filters = (query) => {
    const given = FILTERS.map((name) => [name, query[name] ?? ""]).filter(([, value]) => value !== "");
    return Object.fromEntries(given);
  };

  /** One answer; `at` is its place in a search that can be walked through. */
  const Item = ({ folder, item, search, at }) => {
    const values = at === undefined ? {} : { ...search, at };
    return html`<li class="card answer">
      <div class="line"><a class="whole" data-item href=${address.answer(folder, item, values)}>
        ${item.text ? html`<span dir="auto">${texts.line(item.text)}</span>` : `Step ${parts.count(item.step)}, answer ${item.rollout + 1}`}</a></div>
      <p class="snippet"><${texts.Snippet} text=${item.snippet ?? ""} hits=${item.hits} /></p>
      <div class="chips">
        <${parts.Reward} reward=${item.reward} score=${item.score} />
        <${parts.Troubles} truncated=${item.truncated} failure=${item.failure} />
        <span class="soft">${item.kind === "train" ? "" : `${item.kind} · `}step ${parts.count(item.step)} · answer ${parts.count(item.rollout + 1)}
          ${typeof item.tokens === "number" ? ` · ${parts.many(item.tokens, "token")}` : ""}</span>
      </div>
    </li>`;
  };

  const Filters = ({ query, about }) => {
    const kinds = KINDS.filter(([kind]) => about.kinds?.[kind]);
    const { outcome = [], category = [], reason = [] } = about.filters ?? {};
    const more = MORE.some((name) => query[name]);
    const kind = kinds.length > 1 && html`<${parts.Select} name="kind" label="Kind" values=${kinds} query=${query} />`;
    if (loading.bundled())
      return html`<form class="filters"><${parts.Select} name="reward" label="Reward" values=${REWARDS} query=${query} />${kind}</form>
        <p class="soft">A bundle has no search: <code>metis view</code> on the folder itself has.</p>`;
    return html`<form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <${parts.Field} name="q" label="Text" query=${query} placeholder="in all answers" />
      <${parts.Select} name="reward" label="Reward" values=${REWARDS} query=${query} />
      <${parts.Select} name="outcome" label="Outcome of its group" values=${outcome} query=${query} />
      <div class="toggles"><${parts.Toggle} name="truncated" label="truncated" query=${query} />
        <${parts.Toggle} name="failed" label="failed" query=${query} /></div>
      <details class="more" open=${more}><summary>More filters</summary><div class="filters">
      ${kind}
      <${parts.Field} name="step" label="Step" type="number" query=${query} placeholder="all" />
      ${category.length > 1 && html`<${parts.Select} name="category" label="Category" values=${category} query=${query} />`}
      ${reason.length > 0 && html`<${parts.Select} name="reason" label="Chosen as" values=${reason} query=${query} />`}
      <${parts.Select} name="sort" label="Order by" any="newest" values=${SORTS} query=${query} />
      </div></details>
    </form>`;
  };

  /** Filters that have no field of their own, each with a button that drops it. */
  const Narrowed = ({ query }) => {
    const words = { prompt: "of the prompt", from: "from step", to: "to step" };
    const given = Object.keys(words).filter((name) => query[name]);
    return given.length > 0 && html`<p class="narrowed">${given.map((name) => html`<button class="chip"
      aria-label=${`Drop: ${words[name]} ${texts.line(query[name])}`} onClick=${() => address.change({ [name]: "", page: "" })}>
      ${words[name]} ${texts.line(query[name])} ×</button>`)}</p>`;
  };

  const none = (about, search) => {
    if (Object.keys(search).length) return "No answer is left by these filters.";
    if (about.indexed && !about.indexed.done) return "No answer has been read yet.";
    return "No answer was kept in this folder.";
  };

  const Answers = ({ folder, about, query }) => {
    const search = filters(query);
    const [goes, setGoes] = useState(0);
    const path = address.api(folder, ["answers"], { ...search, page: query.page });
    const state = useLoaded(path, `${about.revision} ${goes}`);
    const found = state.value ?? state.last;
    useEffect(() => {
      if (state.value?.exact !== false) return undefined;
      const timer = setTimeout(() => setGoes(goes + 1), AGAIN);
      return () => clearTimeout(timer);
    }, [state.value]);
    return html`<${parts.Title} over=${texts.line(about.label)}>Answers<//>
      <${Filters} query=${query} about=${about} />
      <${Narrowed} query=${query} />
      <${parts.State} state=${state} />
      ${found && html`<div class=${state.busy ? "stale" : ""}>
        <${parts.Pager} found=${found} one="answer" />
        ${found.items.length === 0 && html`<${parts.Empty}>${none(about, search)}<//>`}
        <ul class="cards">${found.items.map((item, place) => html`<${Item} key=${`${item.kind}/${item.step}/${item.prompt}/${item.rollout}`}
          folder=${folder} item=${item} search=${search} at=${found.page * found.size + place} />`)}</ul>
        ${found.items.length > 10 && html`<${parts.Pager} found=${found} one="answer" />`}
      </div>`}`;
  };

  return { Answers, Item, filters };
})();
