// The page: one run or two side by side, under the same filters. These, and the prompt that is
// open, are kept in the address.
"use strict";

const metis = (() => {
  const { useEffect, useMemo, useState } = preactHooks;
  const PAGE = 50;
  const NONE = "none";
  const runs = [];
  const asked = new Set();
  let labels = [];
  let redraw = () => {};

  /** Loads a run; a script, since a page in a folder may load no other data. */
  const load = (number) => {
    if (asked.has(number)) return;
    asked.add(number);
    const script = document.createElement("script");
    script.src = `data/${number}.js`;
    script.addEventListener("error", () => fail(number, "it could not be loaded"));
    document.body.append(script);
  };

  const add = (number, run) => {
    runs[number] = run;
    redraw();
  };

  const fail = (number, message) => {
    runs[number] = { label: labels[number], failure: message, rows: [], steps: [], exemplars: {} };
    redraw();
  };

  const START = { ...filters.EMPTY, left: "0", right: NONE, open: "" };

  /** The name of an opened row in the address. */
  const named = (side, row) => `${side}/${row.step}/${row.prompt}`;

  const fromAddress = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    return Object.fromEntries(Object.keys(START).map((key) => [key, given.get(key) ?? START[key]]));
  };

  const toAddress = (view) => {
    const kept = Object.entries(view).filter(([key, value]) => value !== START[key]);
    history.replaceState(null, "", `#${new URLSearchParams(kept)}`);
  };

  const Pane = ({ run, side, view, change }) => {
    const [order, setOrder] = useState({ column: "step", descending: false });
    const [page, setPage] = useState(0);
    const opened = useMemo(
      () => view.open && run.rows.find((row) => named(side, row) === view.open),
      [run, side, view.open],
    );
    const open = (row) => change({ open: row ? named(side, row) : "" });
    const { text, category, reason, outcome, step } = view;
    const found = useMemo(
      () => filters.sorted(filters.shown(run.rows, view), order.column, order.descending),
      [run, text, category, reason, outcome, step, order],
    );
    useEffect(() => setPage(0), [found]);
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    const at = Math.min(page, pages - 1);
    const rows = found.slice(at * PAGE, (at + 1) * PAGE);
    const sort = (column) =>
      setOrder({ column, descending: order.column === column && !order.descending });
    const every = (prompt) => change({ ...filters.EMPTY, text: prompt, open: "" });
    return html`<section class="pane">
      <h2>${run.label}</h2>
      ${run.failure && html`<p role="alert">${run.failure}</p>`}
      <${parts.Steps} steps=${run.steps} go=${(number) => change({ step: number })} />
      <${parts.Pager} page=${at} pages=${pages} found=${found.length} whole=${run.rows.length}
        turn=${setPage} />
      <${parts.Table} rows=${rows} reasons=${run.reasons ?? {}} order=${order} sort=${sort}
        open=${open} />
      ${rows.length === 0 && html`<p class="muted">No row is left by these filters.</p>`}
      ${opened && html`<${detail.Detail} run=${run} row=${opened} close=${() => open(null)}
        every=${every} />`}
    </section>`;
  };

  const Chooser = ({ view, change }) => {
    const option = (label, number) => html`<option value=${String(number)}>${label}</option>`;
    const choose = (side) => (event) => change({ [side]: event.target.value });
    return html`<div class="chooser">
      <label>Run <select value=${view.left} onChange=${choose("left")}>
        ${labels.map(option)}
      </select></label>
      <label>Beside it <select value=${view.right} onChange=${choose("right")}>
        <option value=${NONE}>none</option>${labels.map(option)}
      </select></label>
    </div>`;
  };

  const App = () => {
    const [view, setView] = useState(fromAddress);
    const [, again] = useState(0);
    redraw = () => again((count) => count + 1);
    const change = (part) => setView((before) => ({ ...before, ...part }));
    useEffect(() => toAddress(view), [view]);
    useEffect(() => {
      const moved = () => setView(fromAddress());
      addEventListener("hashchange", moved);
      return () => removeEventListener("hashchange", moved);
    }, []);
    const numbers = [view.left, view.right].map(Number).filter((number) => number in labels);
    useEffect(() => numbers.forEach(load), [view.left, view.right]);
    const ready = numbers.filter((number) => runs[number]);
    return html`
      <header class="top"><h1>METIS view</h1>
        ${labels.length > 1 && html`<${Chooser} view=${view} change=${change} />`}
      </header>
      <${parts.Filters} runs=${ready.map((number) => runs[number])} filter=${view} change=${change} />
      <div class=${numbers.length > 1 ? "panes two" : "panes"}>
        ${numbers.map((number, side) =>
          runs[number]
            ? html`<${Pane} key=${`${side}-${number}`} run=${runs[number]} side=${side}
                view=${view} change=${change} />`
            : html`<p aria-busy="true" key=${`${side}-loading`}>Loading ${labels[number]}</p>`,
        )}
      </div>`;
  };

  const list = (names) => {
    labels = names;
    const page = document.getElementById("page");
    page.replaceChildren();
    preact.render(html`<${App} />`, page);
  };

  return { add, fail, list };
})();
