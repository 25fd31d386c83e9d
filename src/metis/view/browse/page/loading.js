// Data of the page: `load` asks for one path, `useLoaded` keeps what a page shows up to date.
"use strict";

const html = htm.bind(preact.h);

const loading = (() => {
  const { useEffect, useRef, useState } = preactHooks;
  const KEPT = 60;
  const THINGS = { answer: "this answer", answers: "the answers that are asked for" };
  const kept = new Map();
  const asked = new Map();

  const problem = async (response) => {
    const said = await response.json().catch(() => ({}));
    return said.error ?? `The server answered ${response.status}.`;
  };

  const fetched = async (path) => {
    let response;
    try {
      response = await fetch(`api/${path}`);
    } catch {
      throw new Error("The server does not answer. Start `metis view` again.");
    }
    if (!response.ok) throw new Error(await problem(response));
    return response.json();
  };

  /** The names of the folders, in their order. */
  let names = [];
  let isBundle = location.protocol === "file:";

  /** True where the page is a folder and no server: nothing can be searched for, or changes. */
  const bundled = () => isBundle;

  /** A page that was opened from a folder may load scripts alone: they call `metis.answer`. */
  const waiting = new Map();

  /** What a bundle does not have, and the command that shows it. */
  const absent = (path) => {
    const [place, thing] = path.split("?")[0].split("/");
    const query = new URLSearchParams(path.split("?")[1]);
    const name = names[place] ?? "RUN";
    const of = ["kind", "step", "prompt", "rollout"].map((key) => query.get(key)).join("/");
    const what = query.get("page")
      ? `page ${Number(query.get("page")) + 1} of this list`
      : (THINGS[thing] ?? `this ${thing ?? "folder"}`.replace(/s$/, ""));
    const shell = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);
    const command = thing === "answer" ? ["inspect", name, "--answer", of] : ["view", name];
    const error = new Error(`This bundle does not have ${what}. The folder itself has:`);
    return Object.assign(error, { command: ["metis", ...command].map(shell).join(" ") });
  };

  const scripted = (path) =>
    new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `data/${encodeURIComponent(path).replaceAll("%", "~")}.js`;
      const end = (settle) => (value) => {
        waiting.delete(path);
        script.remove();
        settle(value);
      };
      waiting.set(path, end(resolve));
      script.addEventListener("error", () => end(reject)(absent(path)));
      document.body.append(script);
    });

  /** The data at a path; one request for all who ask at the same time. */
  const load = (path) => {
    if (!asked.has(path)) {
      const answer = (isBundle ? scripted : fetched)(path).finally(() => asked.delete(path));
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
        (error) => wanted && setState({ path, error: error.message, command: error.command }),
      );
      return () => {
        wanted = false;
      };
    }, [path, revision]);
    const mine = state.path === path ? state : { value: kept.get(path) };
    if (mine.value !== undefined) last.current = mine.value;
    const busy = path !== null && mine.value === undefined && mine.error === undefined;
    const { value, error, command } = mine;
    return { value, error, command, busy, last: last.current };
  };

  const answer = (path, value) => waiting.get(path)?.(value);

  /** The folders there are, of the server or else of the bundle. */
  const open = async () => {
    if (!isBundle) isBundle = (await fetch("api/folders").catch(() => null))?.status === 404;
    const folders = await load("folders");
    names = folders.map(({ folder }) => folder);
    return folders;
  };

  return { answer, bundled, load, open, useLoaded };
})();

/** What the scripts of a bundle call. */
const metis = { answer: loading.answer };
