// Data of the page: `load` asks for one path, `useLoaded` keeps what a page shows up to date.
"use strict";

const html = htm.bind(preact.h);

const loading = (() => {
  const { useEffect, useRef, useState } = preactHooks;
  const KEPT = 60;
  const kept = new Map();
  const asked = new Map();

  const problem = async (response) => {
    const said = await response.json().catch(() => ({}));
    return said.error ?? `The server answered ${response.status}.`;
  };

  const fetched = async (path) => {
    let response;
    try {
      response = await fetch(path, { credentials: "same-origin" });
    } catch {
      throw new Error("The server does not answer. Start `metis view` again.");
    }
    if (!response.ok) throw new Error(await problem(response));
    return response.json();
  };

  /** The data at a path; one request for all who ask at the same time. */
  const load = (path) => {
    if (!asked.has(path)) {
      const answer = fetched(path).finally(() => asked.delete(path));
      asked.set(path, answer);
    }
    return asked.get(path);
  };

  const keep = (path, value) => {
    kept.delete(path);
    kept.set(path, value);
    if (kept.size > KEPT) kept.delete(kept.keys().next().value);
  };

  /** What is at a path, asked for again with each revision; meanwhile the value before it. */
  const useLoaded = (path, revision) => {
    const [state, setState] = useState({});
    const last = useRef();
    useEffect(() => {
      if (path === null) return undefined;
      let wanted = true;
      load(path).then(
        (value) => {
          keep(path, value);
          if (wanted) setState({ path, value });
        },
        (error) => wanted && setState({ path, error: error.message }),
      );
      return () => {
        wanted = false;
      };
    }, [path, revision]);
    const mine = state.path === path ? state : { value: kept.get(path) };
    if (mine.value !== undefined) last.current = mine.value;
    const busy = path !== null && mine.value === undefined && mine.error === undefined;
    return { value: mine.value, error: mine.error, busy, last: last.current };
  };

  return { load, useLoaded };
})();
