// The keyboard: through the items of a page, to the one before or after, and to the search.
"use strict";

const keys = (() => {
  const HELP = [
    ["j, k", "next and previous item; then also ↓ and ↑"],
    ["Enter", "open the item"],
    ["←, →", "previous and next step, answer or page; in a chart, its points"],
    ["/", "search the answers"],
    ["o, p, a", "overview, prompts, answers"],
    ["Backspace", "back"],
    ["?", "these keys"],
  ];

  const items = () => [...document.querySelectorAll("main [data-item]")];

  const move = (by) => {
    const all = items();
    const at = all.indexOf(document.activeElement);
    const first = all.findIndex((item) => item.getBoundingClientRect().top >= 0);
    const to = at < 0 ? Math.max(0, first) : Math.min(all.length - 1, Math.max(0, at + by));
    all[to]?.focus();
    all[to]?.closest("li, tr, a")?.scrollIntoView({ block: "nearest" });
  };

  const press = (name) => {
    const found = document.querySelector(`[data-key="${name}"]:not(:disabled)`);
    found?.click();
    return Boolean(found);
  };

  const writes = (target) => target.matches("textarea, select, input:not([type=checkbox])");

  const ACTIONS = {
    j: () => move(1),
    k: () => move(-1),
    ArrowLeft: () => press("previous"),
    ArrowRight: () => press("next"),
    "/": () => document.querySelector("main input[type=search], #search")?.focus(),
    o: () => press("overview"),
    p: () => press("prompts"),
    a: () => press("answers"),
    Backspace: () => history.back(),
    "?": () => press("help"),
  };

  const onItem = { ArrowDown: () => move(1), ArrowUp: () => move(-1) };

  const pressed = (event) => {
    const { key, target } = event;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (key === "Escape" && writes(target)) target.blur();
    if (writes(target) || document.querySelector("dialog[open]")) return;
    const action = ACTIONS[key] ?? (target.matches("[data-item]") && onItem[key]);
    if (!action) return;
    if (action() !== false) event.preventDefault();
  };

  addEventListener("keydown", pressed);
  return { HELP };
})();
