// The address: every state of the page is one, so that it can be shared and gone back to.
"use strict";

const address = (() => {
  const { useEffect, useState } = preactHooks;

  const encoded = (part) => encodeURIComponent(String(part).toWellFormed?.() ?? String(part));

  /** The query of some values; empty ones are left out. */
  const query = (values) => {
    const given = Object.entries(values ?? {}).filter(([, value]) => value !== "" && value != null);
    return given.map(([name, value]) => `${encoded(name)}=${encoded(value)}`).join("&");
  };

  const withQuery = (path, values) => (query(values) ? `${path}?${query(values)}` : path);

  /** The address of a page of a folder. */
  const of = (folder, parts = [], values = {}) =>
    withQuery(`#/${[folder, ...parts].map(encoded).join("/")}`, values);

  /** The path of its data. */
  const api = (folder, parts, values = {}) =>
    withQuery([folder, ...parts].map(encoded).join("/"), values);

  const answer = (folder, { kind, step, prompt, rollout }, values = {}) =>
    of(folder, ["answer", kind, step, prompt, rollout], values);

  /** What an address names: the folder, the page with its parts, and the query. */
  const parse = (hash) => {
    const [path, search = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
    const given = Object.fromEntries(new URLSearchParams(search));
    try {
      const [folder = "", ...parts] = path.split("/").map(decodeURIComponent);
      return { path, folder, page: parts[0] ?? "", parts: parts.slice(1), query: given };
    } catch {
      return { path, folder: "", page: "unreadable", parts: [], query: given };
    }
  };

  const current = () => parse(location.hash);

  /** Change the query of this page: typing replaces the address, a choice adds one to go back to. */
  const change = (values, replace = false) => {
    const { path, query: before } = current();
    const hash = withQuery(`#/${path}`, { ...before, ...values });
    if (!replace) {
      location.hash = hash;
      return;
    }
    history.replaceState(history.state, "", hash);
    dispatchEvent(new Event("hashchange"));
  };

  const useAddress = () => {
    const [now, setNow] = useState(current);
    useEffect(() => {
      const moved = () => setNow(current());
      addEventListener("hashchange", moved);
      return () => removeEventListener("hashchange", moved);
    }, []);
    return now;
  };

  return { answer, api, change, current, of, parse, useAddress };
})();
