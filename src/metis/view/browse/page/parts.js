// The parts of the page. Preact writes all that comes from a run as text, never as markup.
"use strict";

const html = htm.bind(preact.h);

const parts = (() => {
  const number = (value, digits = 3) => (value === undefined ? "" : value.toFixed(digits));
  const count = (value) => value.toLocaleString("en");

  /** A mark for every rollout: full, part of the marks, none, failed. */
  const Marks = ({ row }) => {
    if (!row.rewards) return null;
    const rewards = row.rewards.slice().sort((a, b) => b - a);
    const kind = (reward) => (reward >= 1 ? "full" : reward > 0 ? "part" : "none");
    const signs = { full: "●", part: "◐", none: "○" };
    const said = `rewards ${rewards.join(", ")}${row.failed ? `; ${row.failed} failed` : ""}`;
    return html`<span class="marks" role="img" aria-label=${said} title=${said}>
      ${rewards.map((reward) => html`<span class=${kind(reward)}>${signs[kind(reward)]}</span>`)}
      <span class="none">${"×".repeat(row.failed ?? 0)}</span>
    </span>`;
  };

  const Select = ({ label, value, any, values, change }) => html`<label>
    ${label}
    <select value=${value} onChange=${(event) => change(event.target.value)}>
      ${any && html`<option value="">${any}</option>`}
      ${values.map((each) => html`<option value=${each}>${each}</option>`)}
    </select>
  </label>`;

  const Filters = ({ runs, filter, change }) => {
    const set = (name) => (value) => change({ [name]: value });
    const typed = (name) => (event) => change({ [name]: event.target.value });
    return html`<form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <label class="text">Text
        <input type="search" value=${filter.text} onInput=${typed("text")}
          placeholder="in prompts, answers and judgments" />
      </label>
      <${Select} label="Category" value=${filter.category} any="any"
        values=${filters.choices(runs, "category")} change=${set("category")} />
      <${Select} label="Outcome" value=${filter.outcome}
        values=${filters.OUTCOMES} change=${set("outcome")} />
      <${Select} label="Reason" value=${filter.reason} any="any"
        values=${filters.choices(runs, "reason")} change=${set("reason")} />
      <label>Step
        <input type="number" min="0" value=${filter.step} placeholder="all" onInput=${typed("step")} />
      </label>
    </form>`;
  };

  const Pager = ({ page, pages, found, whole, turn }) => html`<nav class="pager" aria-label="pages">
    <span aria-live="polite">${count(found)} of ${count(whole)} rows</span>
    <span>
      <button class="outline secondary" disabled=${page === 0} onClick=${() => turn(page - 1)}>
        Previous
      </button>
      <span> ${count(page + 1)} / ${count(pages)} </span>
      <button class="outline secondary" disabled=${page + 1 >= pages} onClick=${() => turn(page + 1)}>
        Next
      </button>
    </span>
  </nav>`;

  const Head = ({ name, order, sort }) => {
    const mine = order.column === name;
    const direction = order.descending ? "descending" : "ascending";
    return html`<th scope="col" aria-sort=${mine ? direction : "none"}>
      <button class="plain" onClick=${() => sort(name)}>
        ${name}${mine ? (order.descending ? " ↓" : " ↑") : ""}
      </button>
    </th>`;
  };

  const Row = ({ row, reasons, open }) => html`<tr>
    <td data-name="step">${row.step}</td>
    <td class="prompt"><button class="plain link" onClick=${() => open(row)}>${row.prompt}</button></td>
    <td>${row.category}</td>
    <td title=${reasons[row.reason]}>${row.failure || row.reason}</td>
    <td data-name="v̂">${number(row.score)}</td>
    <td data-name="v">${number(row.variance)}</td>
    <td><${Marks} row=${row} /></td>
    <td data-name="tokens">${number(filters.COLUMNS.tokens(row), 0)}</td>
  </tr>`;

  const Table = ({ rows, reasons, order, sort, open }) => html`<table class="rows striped">
    <thead><tr>
      ${Object.keys(filters.COLUMNS).map(
        (name) => html`<${Head} name=${name} order=${order} sort=${sort} />`,
      )}
    </tr></thead>
    <tbody>
      ${rows.map((row) => html`<${Row} row=${row} reasons=${reasons} open=${open} />`)}
    </tbody>
  </table>`;

  /** The metrics of every step; a click shows the rows of one. */
  const Steps = ({ steps, go }) => {
    const names = [...new Set(steps.flatMap((step) => Object.keys(step)))];
    return html`<details class="steps">
      <summary>Steps</summary>
      <div class="scroll"><table>
        <thead><tr>${names.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
        <tbody>${steps.map((step) => html`<tr>
          ${names.map((name) => html`<td>${name === "step"
            ? html`<button class="plain link" onClick=${() => go(String(step.step))}>
                ${step.step}
              </button>`
            : step[name] === undefined ? "" : Number(step[name].toPrecision(3))}</td>`)}
        </tr>`)}</tbody>
      </table></div>
    </details>`;
  };

  return { Filters, Marks, Pager, Select, Steps, Table, count, number };
})();
