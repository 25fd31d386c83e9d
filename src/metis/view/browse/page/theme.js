// Light or dark: what the system says, until one is chosen. Runs before anything is drawn.
"use strict";

const theme = (() => {
  const KEY = "metis-theme";
  const system = matchMedia("(prefers-color-scheme: dark)");

  const stored = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;
    }
  };

  const store = (name) => {
    try {
      localStorage.setItem(KEY, name);
    } catch {
      // A browser that keeps nothing still switches.
    }
  };

  const set = (name) => document.documentElement.setAttribute("data-theme", name);
  const current = () =>
    document.documentElement.getAttribute("data-theme") ?? (system.matches ? "dark" : "light");

  const turn = () => {
    const other = current() === "dark" ? "light" : "dark";
    set(other);
    store(other);
    return other;
  };

  if (["light", "dark"].includes(stored())) set(stored());
  return { current, turn };
})();
