// The page: which folder and which of its pages the address names, and what is new there.
"use strict";

(() => {
  const { useEffect, useLayoutEffect, useRef, useState } = preactHooks;
  const LIVE = 2000;
  const STILL = 10000;
  const PAGES = {
    "": overview.Overview,
    step: step.Step,
    prompts: prompts.Prompts,
    prompt: prompts.Prompt,
    answers: answers.Answers,
    answer: answer.Answer,
  };
  const GROUPS = { run: "Runs", survey: "Surveys", eval: "Evaluations", comparison: "Comparisons" };

  /** The state with what a folder says of itself; the one before, where nothing changed. */
  const newer = (before, now) => (JSON.stringify(before) === JSON.stringify(now) ? before : now);

  /** The state when the folder could not be asked: what it said last stays. */
  const failed = (before, folder, error) => ({
    folder,
    about: before.folder === folder ? before.about : undefined,
    error,
  });

  /** What a folder says of itself, asked for again while the page is seen. */
  const useAbout = (folder) => {
    const [state, setState] = useState({});
    useEffect(() => {
      let timer;
      let wanted = true;
      const ask = async () => {
        clearTimeout(timer);
        let live = true;
        try {
          const about = await loading.load(address.api(folder, ["overview"]));
          live = about.state === "running" || about.indexed?.done === false;
          if (wanted) setState((before) => newer(before, { folder, about }));
        } catch (error) {
          if (wanted) setState((before) => failed(before, folder, error.message));
        }
        if (wanted && !loading.bundled()) timer = setTimeout(seen, live ? LIVE : STILL);
      };
      const seen = () => !document.hidden && ask();
      document.addEventListener("visibilitychange", seen);
      ask();
      return () => {
        wanted = false;
        clearTimeout(timer);
        document.removeEventListener("visibilitychange", seen);
      };
    }, [folder]);
    return state.folder === folder ? state : {};
  };

  const Folders = ({ folders, folder }) => {
    const groups = Object.entries(GROUPS)
      .map(([kind, name]) => [name, folders.filter((each) => each.kind === kind)])
      .filter(([, found]) => found.length);
    const chosen = (event) => {
      location.hash = address.of(event.target.value);
    };
    const option = ({ id, label }) => html`<option value=${String(id)}
      selected=${String(id) === folder}>${texts.line(label)}</option>`;
    return html`<span class="folders">
      <select aria-label="Folder" value=${folder} onChange=${chosen}>
        ${groups.map(([name, found]) => html`<optgroup label=${name}>${found.map(option)}</optgroup>`)}
      </select></span>`;
  };

  const Live = ({ about }) => {
    if (!about) return null;
    const whole = about.settings?.steps;
    const of = whole > 0 ? ` of ${parts.count(whole)}` : "";
    const words = about.last ? ` · step ${parts.count(about.last)}${of}` : "";
    return html`<span class=${`state ${about.state}`}>${about.state}${words}</span>`;
  };

  /** A page of the folder, with those that belong to it. */
  const Tab = ({ now, name, page, detail }) => html`<a data-key=${name.toLowerCase()}
    href=${address.of(now.folder, page ? [page] : [])}
    aria-current=${[page, detail].includes(now.page) ? "page" : undefined}>${name}</a>`;

  const Theme = () => {
    const [now, setNow] = useState(theme.current());
    const other = now === "dark" ? "light" : "dark";
    const said = `Switch to ${other}`;
    return html`<button class="icon" aria-label=${said} title=${said}
      onClick=${() => setNow(theme.turn())}>${now === "dark" ? "☀" : "☾"}</button>`;
  };

  const Help = () => {
    const dialog = useRef();
    const beside = (event) => event.target === dialog.current && dialog.current.close();
    const row = ([all, words]) => html`
      <dt>${all.split(", ").map((key) => html`<kbd>${key}</kbd>`)}</dt><dd>${words}</dd>`;
    return html`<button class="icon" data-key="help" aria-label="Keys" title="Keys (?)"
        onClick=${() => dialog.current.showModal()}>?</button>
      <dialog ref=${dialog} aria-labelledby="keys-title" onClick=${beside}>
        <div><h2 id="keys-title">Keys</h2>
        <dl class="keys">${keys.HELP.map(row)}</dl>
        <button onClick=${() => dialog.current.close()}>Close</button></div>
      </dialog>`;
  };

  /** The search of every page but that of the answers, which has its own. */
  const Search = ({ folder }) => {
    const searched = (event) => {
      event.preventDefault();
      location.hash = address.of(folder, ["answers"], { q: event.target.elements.q.value });
    };
    return html`<form class="find" role="search" onSubmit=${searched}>
      <input id="search" name="q" type="search" aria-label="Search the answers" title="Search (/)"
        placeholder="Search" autocomplete="off" spellcheck="false" />
    </form>`;
  };

  const Top = ({ folders, now, about }) => {
    const { folder, page } = now;
    const compared = folders.find((each) => String(each.id) === folder)?.kind === "comparison";
    const searched = page !== "answers" && !compared && !loading.bundled();
    return html`<header class="top"><div>
      <a class="brand" href=${address.of(folders.length ? folders[0].id : 0)}>METIS</a>
      ${folders.length > 1
        ? html`<${Folders} folders=${folders} folder=${folder} />`
        : html`<span class="one">${texts.line(folders[0]?.label ?? "")}</span>`}
      <nav aria-label="Pages">${!compared && html`
        <${Tab} now=${now} name="Overview" page="" detail="step" />
        <${Tab} now=${now} name="Prompts" page="prompts" detail="prompt" />
        <${Tab} now=${now} name="Answers" page="answers" detail="answer" />`}
      </nav>
      <${Live} about=${about} />
      ${searched && html`<${Search} folder=${folder} />`}
      <span class="tools"><${Theme} /><${Help} /></span>
    </div></header>`;
  };

  const share = ([read, whole]) => Math.min(100, Math.floor((100 * read) / Math.max(1, whole)));

  const Reading = ({ indexed }) => {
    if (!indexed || indexed.done) return null;
    const percent = share(indexed.bytes);
    return html`<p class="banner reading-on" role="status">
      Reading the answers: ${percent}%. Searches find what has been read.
      <progress max="100" value=${percent}>${percent}%</progress></p>`;
  };

  const Alert = ({ children }) => html`<p class="banner" role="alert">${children}</p>`;

  const Missing = ({ children }) => html`<${parts.Title}>Not here<//><p>${children}</p>`;

  const Content = ({ folders, now, state }) => {
    const listed = folders.find((each) => String(each.id) === now.folder);
    const Page = PAGES[now.page];
    if (!listed)
      return html`<${Missing}>No folder has the number ${texts.line(now.folder)} here:
        ${" "}<a href=${address.of(0)}>see the first</a>.<//>`;
    if (!Page)
      return html`<${Missing}>This address names no page:
        ${" "}<a href=${address.of(now.folder)}>see the overview</a>.<//>`;
    const { about, error } = state;
    if (!about)
      return html`<${parts.Title}>${texts.line(listed.label)}<//>
        <${parts.State} state=${{ error, busy: true }} />`;
    const wrong = about.wrong ?? listed.wrong;
    return html`
      ${wrong && html`<${Alert}>${about.kind === "comparison"
        ? texts.visible(wrong)
        : html`Damaged: ${texts.visible(wrong)}. What can be read is shown.`}<//>`}
      ${error && html`<${Alert}>${texts.visible(error)}<//>`}
      <${Reading} indexed=${about.indexed} />
      ${about.kind === "comparison"
        ? html`<${comparison.Comparison} about=${about} folders=${folders} />`
        : html`<${Page} key=${`${now.folder}/${now.page}`} folder=${now.folder} about=${about}
            parts=${now.parts} query=${now.query} />`}`;
  };

  /** To the top with a new page, to where it was with one that is gone back to. */
  const usePlace = (now) => {
    useEffect(() => {
      history.scrollRestoration = "manual";
      const left = (event) => {
        const item = event.target.closest("a[href^='#'], [role='slider']")?.getAttribute("href");
        if (item !== undefined) history.replaceState({ y: scrollY, item }, "");
      };
      addEventListener("click", left, true);
      return () => removeEventListener("click", left, true);
    }, []);
    const before = useRef(null);
    useLayoutEffect(() => {
      const moved = before.current !== null && before.current !== now.path;
      before.current = now.path;
      if (!moved) return undefined;
      const { y = 0, item } = history.state ?? {};
      document.querySelector("h1")?.focus({ preventScroll: true });
      let goes = 0;
      const settled = () => {
        scrollTo(0, y);
        const found = item && document.querySelector(`main a[href="${CSS.escape(item)}"]`);
        found?.focus({ preventScroll: true });
        return goes++ > 20 || ((found || !item) && scrollY >= y - 1);
      };
      if (settled()) return undefined;
      const timer = setInterval(() => settled() && clearInterval(timer), 50);
      return () => clearInterval(timer);
    }, [now.path]);
  };

  const App = ({ first }) => {
    const now = address.useAddress();
    const state = useAbout(now.folder);
    const folders = loading.useLoaded("folders", state.about?.revision).value ?? first;
    usePlace(now);
    useEffect(() => {
      const label = folders.find((each) => String(each.id) === now.folder)?.label;
      const names = [now.page || "overview", ...now.parts.slice(-1), label, "METIS"];
      document.title = names.filter(Boolean).map(texts.line).join(" · ");
    }, [now.path]);
    return html`<${Top} folders=${folders} now=${now} about=${state.about} />
      <main><${Content} folders=${folders} now=${now} state=${state} /></main>`;
  };

  const start = async () => {
    const page = document.getElementById("page");
    if (!location.hash) history.replaceState(null, "", "#/0");
    try {
      const folders = await loading.open();
      page.replaceChildren();
      preact.render(html`<${App} first=${folders} />`, page);
    } catch (error) {
      page.replaceChildren();
      preact.render(html`<main><${Alert}>${error.message}<//></main>`, page);
    }
  };

  start();
})();
