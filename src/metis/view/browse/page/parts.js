// What several pages have in common: marks, chips, filters, pages of a list, and states in words.
"use strict";

const parts = (() => {
  const { useEffect, useRef, useState } = preactHooks;
  const WAIT = 200;

  const count = (value) => value.toLocaleString("en");
  const many = (value, one, more = `${one}s`) => `${count(value)} ${value === 1 ? one : more}`;
  const number = (value, places = 3) => (typeof value === "number" ? value.toFixed(places) : "–");
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const short = (value) => (typeof value === "number" ? charts.digits(value) : String(value));

  const grade = (reward) => {
    if (typeof reward !== "number") return "failed";
    if (reward >= 1) return "right";
    return reward > 0 ? "partial" : "wrong";
  };
  const SIGNS = { right: "●", partial: "◐", wrong: "○", failed: "×" };

  /** A mark for every rollout: right, partly right, wrong, failed. */
  const Marks = ({ rewards, failed = 0 }) => {
    if (!rewards?.length && !failed) return null;
    const given = (rewards ?? []).slice().sort((a, b) => b - a);
    const words = `rewards ${given.map(short).join(", ")}${failed ? `; ${failed} failed` : ""}`;
    return html`<span class="marks" role="img" aria-label=${words} title=${words}>
      ${given.map((reward) => html`<span class=${grade(reward)}>${SIGNS[grade(reward)]}</span>`)}
      ${failed > 0 && html`<span class="failed">${SIGNS.failed.repeat(failed)}</span>`}
    </span>`;
  };

  /** What an answer earned. */
  const Reward = ({ reward, score }) => {
    if (typeof score === "number")
      return html`<span class="reward">predicted ${number(score)}</span>`;
    const kind = grade(reward);
    const words = kind === "failed" ? "no reward" : `reward ${short(reward)}`;
    return html`<span class=${`reward ${kind}`}>
      <span aria-hidden="true">${SIGNS[kind]}</span> ${words}</span>`;
  };

  const Chip = ({ kind = "", children, title }) =>
    html`<span class=${`chip ${kind}`} title=${title}>${children}</span>`;

  const Outcome = ({ outcome }) =>
    outcome ? html`<${Chip} kind=${outcome.replaceAll(" ", "-")}>${outcome}<//>` : null;

  const Category = ({ category }) =>
    category ? html`<${Chip} kind="category">${texts.line(category)}<//>` : null;

  /** The text of a prompt on one line; its name where there is none. */
  const PromptText = ({ of }) => html`<span dir="auto">${texts.line(of.text || of.prompt)}</span>`;

  /** What went wrong with an answer, in words. */
  const Troubles = ({ truncated, failure }) => html`
    ${truncated && html`<${Chip} kind="warn" title="It reached the limit of its length.">
      truncated<//>`}
    ${failure && html`<${Chip} kind="bad" title=${texts.line(failure)}>failed<//>`}`;

  const Copy = ({ text }) => {
    const [said, setSaid] = useState("Copy");
    const copy = async () => {
      try {
        await navigator.clipboard.writeText(text);
        setSaid("Copied");
      } catch {
        setSaid("Select it to copy");
      }
      setTimeout(() => setSaid("Copy"), 2000);
    };
    return html`<button class="quiet copy" onClick=${copy} aria-live="polite">${said}</button>`;
  };

  const Command = ({ text }) => html`<div class="command">
    <code>${texts.visible(text)}</code><${Copy} text=${text} />
  </div>`;

  /** The state of something that is loaded: an error, a wait, or nothing yet to say. */
  const State = ({ state }) => {
    if (state.error)
      return html`<div class="banner" role="alert">${texts.visible(state.error)}
        ${state.command && html`<${Command} text=${state.command} />`}</div>`;
    if (state.busy && state.last === undefined)
      return html`<p class="soft waiting" aria-busy="true">Loading…</p>`;
    return null;
  };

  const Empty = ({ children }) => html`<p class="empty soft">${children}</p>`;

  const Title = ({ children, over }) => html`<div class="title">
    ${over && html`<p class="over">${over}</p>`}<h1 tabindex="-1">${children}</h1>
  </div>`;

  const Facts = ({ facts }) => html`<dl class="facts">
    ${facts
      .filter(([, value]) => value !== undefined && value !== null && value !== "")
      .map(([name, value]) => html`<div><dt>${texts.line(name)}</dt><dd>${value}</dd></div>`)}
  </dl>`;

  const Select = ({ name, label, any = "any", values, query }) => html`<label>
    <span>${label}</span>
    <select value=${query[name] ?? ""} aria-label=${label}
      onChange=${(event) => address.change({ [name]: event.target.value, page: "" })}>
      <option value="">${any}</option>
      ${values.map((each) => {
        const [value, words] = Array.isArray(each) ? each : [each, each];
        const chosen = query[name] === value;
        return html`<option value=${value} selected=${chosen}>${texts.line(words)}</option>`;
      })}
    </select>
  </label>`;

  /** A field that is in the address a moment after typing ends. */
  const Field = ({ name, label, query, type = "search", placeholder = "", id }) => {
    const given = query[name] ?? "";
    const [value, setValue] = useState(given);
    const timer = useRef();
    useEffect(() => setValue(given), [given]);
    const typed = (event) => {
      const text = event.target.value;
      setValue(text);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => address.change({ [name]: text, page: "" }, true), WAIT);
    };
    useEffect(() => () => clearTimeout(timer.current), []);
    return html`<label class=${type}><span>${label}</span>
      <input id=${id} type=${type} value=${value} placeholder=${placeholder} onInput=${typed}
        min=${type === "number" ? 0 : undefined} spellcheck="false" autocomplete="off" />
    </label>`;
  };

  const Toggle = ({ name, label, query }) => {
    const changed = (event) => address.change({ [name]: event.target.checked ? "1" : "", page: "" });
    return html`<label class="toggle">
      <input type="checkbox" checked=${query[name] === "1"} onChange=${changed} />
      <span>${label}</span>
    </label>`;
  };

  /** The filters of a list, each with a button that drops it. */
  const Narrowed = ({ query, words }) => {
    const given = Object.keys(words).filter((name) => query[name]);
    if (!given.length) return null;
    const said = (name) => {
      const [word, value] = [words[name], texts.line(query[name])];
      return typeof word === "function" ? word(value) : `${word} ${value}`;
    };
    const drop = (names) => () =>
      address.change({ ...Object.fromEntries(names.map((name) => [name, ""])), page: "" });
    return html`<p class="narrowed"><span class="soft">Only</span>
      ${given.map((name) => html`<button key=${name} class="chip" aria-label=${`Drop: ${said(name)}`}
        onClick=${drop([name])}>${said(name)} ×</button>`)}
      ${given.length > 1 && html`<button class="quiet" onClick=${drop(given)}>Show all</button>`}
    </p>`;
  };

  const seconds = (value) =>
    value < 1 ? `${Math.max(1, Math.round(1000 * value))} ms` : `${value.toFixed(1)} s`;

  /** How much a list found, and its pages. */
  const Pager = ({ found, one, more }) => {
    const pages = Math.max(1, Math.ceil(found.total / found.size));
    const turn = (page) => () => {
      address.change({ page: page || "" });
      scrollTo(0, 0);
    };
    const time = loading.bundled() ? "" : `in ${seconds(found.seconds)}`;
    const took = found.exact === false ? "or more, still looking" : time;
    const button = (name, key, page) => html`<button data-key=${key} onClick=${turn(page)}
      disabled=${page < 0 || page >= pages}>${name}</button>`;
    return html`<nav class="pager" aria-label="Pages of the list">
      <span aria-live="polite"><b>${many(found.total, one, more)}</b>
        <span class="soft"> ${took}</span></span>
      ${pages > 1 && html`<span>
        ${button("Previous", "previous", found.page - 1)}
        <span class="soft">page ${count(found.page + 1)} of ${count(pages)}</span>
        ${button("Next", "next", found.page + 1)}
      </span>`}
    </nav>`;
  };

  /** Cards, at first only some of them. */
  const Cards = ({ items, most, render }) => {
    const [shown, setShown] = useState(most);
    return html`<ul class="cards">${items.slice(0, shown).map(render)}</ul>
      ${items.length > shown && html`
        <button class="quiet" onClick=${() => setShown(shown + 4 * most)}>
          Show more: ${count(items.length - shown)} are left</button>`}`;
  };

  /** The one before and the one after, also by the arrow keys. */
  const Beside = ({ previous, next, what }) => {
    const to = (href, key, words) => {
      if (!href) return html`<span class="button none" aria-hidden="true">${words}</span>`;
      const said = `${key} ${what}`;
      return html`<a class="button" href=${href} data-key=${key} aria-label=${said}>${words}</a>`;
    };
    return html`<nav class="beside" aria-label=${`Previous and next ${what}`}>
      ${to(previous, "previous", "←")}${to(next, "next", "→")}
    </nav>`;
  };

  return {
    ...{ Beside, Cards, Category, Chip, Command, Empty, Facts, Field, Marks, Narrowed, Outcome },
    ...{ Pager, PromptText, Reward, SIGNS, Select, State, Title, Toggle, Troubles },
    ...{ count, grade, many, mean, number, short },
  };
})();
