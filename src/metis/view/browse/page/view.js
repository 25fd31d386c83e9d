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
          if (wanted) setState((before) => (before.folder === folder && !before.error &&
            JSON.stringify(before.about) === JSON.stringify(about) ? before : { folder, about }));
        } catch (error) {
          if (wanted) setState((before) => ({ folder, error: error.message, about: before.folder === folder ? before.about : undefined }));
        }
        if (wanted && !loading.bundled()) timer = setTimeout(() => (document.hidden ? undefined : ask()), live ? LIVE : STILL);
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
    const groups = Object.entries(GROUPS).map(([kind, name]) => [name, folders.filter((each) => each.kind === kind)]);
    return html`<span class="folders"><select aria-label="Folder" value=${folder} onChange=${(event) => {
        location.hash = address.of(event.target.value);
      }}>${groups.filter(([, found]) => found.length).map(([name, found]) => html`<optgroup label=${name}>
        ${found.map((each) => html`<option value=${String(each.id)} selected=${String(each.id) === folder}>${texts.line(each.label)}</option>`)}
      </optgroup>`)}</select></span>`;
  };

  const Live = ({ about }) => {
    if (!about) return null;
    const whole = about.settings?.steps;
    const of = typeof whole === "number" ? ` of ${parts.count(whole)}` : "";
    const words = about.last ? ` · step ${parts.count(about.last)}${of}` : "";
    return html`<span class=${`state ${about.state}`}>${about.state}${words}</span>`;
  };

  const Tab = ({ folder, name, page, at, children }) => html`<a href=${address.of(folder, page ? [page] : [])} data-key=${name}
    aria-current=${at ? "page" : undefined}>${children}</a>`;

  const Theme = () => {
    const [now, setNow] = useState(theme.current());
    const other = now === "dark" ? "light" : "dark";
    return html`<button class="icon" aria-label=${`Switch to ${other}`} title=${`Switch to ${other}`}
      onClick=${() => setNow(theme.turn())}>${now === "dark" ? "☀" : "☾"}</button>`;
  };

  const Help = () => {
    const dialog = useRef();
    return html`<button class="icon" data-key="help" aria-label="Keys" title="Keys (?)"
        onClick=${() => dialog.current.showModal()}>?</button>
      <dialog ref=${dialog} aria-labelledby="keys-title" onClick=${(event) => event.target === dialog.current && dialog.current.close()}>
        <div><h2 id="keys-title">Keys</h2>
        <dl class="keys">${keys.HELP.map(([key, words]) => html`<dt>${key.split(", ").map((each) => html`<kbd>${each}</kbd>`)}</dt><dd>${words}</dd>`)}</dl>
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
      <input id="search" name="q" type="search" aria-label="Search the answers" placeholder="Search the answers" title="Search (/)" autocomplete="off" spellcheck="false" />
    </form>`;
  };

  const Top = ({ folders, now, about }) => {
    const { folder, page } = now;
    const compared = folders.find((each) => String(each.id) === folder)?.kind === "comparison";
    return html`<header class="top"><div>
      <a class="brand" href=${address.of(folders.length ? folders[0].id : 0)}>METIS</a>
      ${folders.length > 1
        ? html`<${Folders} folders=${folders} folder=${folder} />`
        : html`<span class="one">${texts.line(folders[0]?.label ?? "")}</span>`}
      <nav aria-label="Pages">${!compared && html`
        <${Tab} folder=${folder} name="overview" page="" at=${page === "" || page === "step"}>Overview<//>
        <${Tab} folder=${folder} name="prompts" page="prompts" at=${page === "prompts" || page === "prompt"}>Prompts<//>
        <${Tab} folder=${folder} name="answers" page="answers" at=${page === "answers" || page === "answer"}>Answers<//>`}
      </nav>
      <${Live} about=${about} />
      ${page !== "answers" && !compared && !loading.bundled() && html`<${Search} folder=${folder} />`}
      <span class="tools"><${Theme} /><${Help} /></span>
    </div></header>`;
  };

  const share = ([read, whole]) => Math.min(100, Math.floor((100 * read) / Math.max(1, whole)));

  const Reading = ({ indexed }) => indexed && !indexed.done && html`<p class="banner reading-on" role="status">
    Reading the answers: ${share(indexed.bytes)}%. Searches find what has been read.
    <progress max="100" value=${share(indexed.bytes)}>${share(indexed.bytes)}%</progress></p>`;

  const Missing = ({ children }) => html`<${parts.Title}>Not here<//><p>${children}</p>`;

  const Content = ({ folders, now, state }) => {
    const listed = folders.find((each) => String(each.id) === now.folder);
    const Page = PAGES[now.page];
    if (!listed) return html`<${Missing}>No folder has the number ${texts.line(now.folder)} here: <a href=${address.of(0)}>see the first</a>.<//>`;
    if (!Page) return html`<${Missing}>This address names no page: <a href=${address.of(now.folder)}>see the overview</a>.<//>`;
    if (!state.about) return html`<${parts.Title}>${texts.line(listed.label)}<//><${parts.State} state=${{ ...state, busy: true }} />`;
    const about = state.about;
    return html`
      ${listed.wrong && html`<p class="banner" role="alert">Damaged: ${texts.visible(listed.wrong)}. What can be read is shown.</p>`}
      ${state.error && html`<p class="banner" role="alert">${texts.visible(state.error)}</p>`}
      <${Reading} indexed=${about.indexed} />
      ${about.kind === "comparison"
        ? html`<${comparison.Comparison} about=${about} folders=${folders} />`
        : html`<${Page} key=${`${now.folder}/${now.page}`} folder=${now.folder} about=${about} parts=${now.parts} query=${now.query} />`}`;
  };

  /** To the top with a new page, to where it was with one that is gone back to. */
  const usePlace = (now) => {
    useEffect(() => {
      history.scrollRestoration = "manual";
      let timer;
      const scrolled = () => {
        clearTimeout(timer);
        timer = setTimeout(() => history.replaceState({ y: scrollY, item: document.activeElement?.getAttribute("href") }, ""), 100);
      };
      addEventListener("scroll", scrolled);
      return () => removeEventListener("scroll", scrolled);
    }, []);
    const before = useRef(null);
    useLayoutEffect(() => {
      const moved = before.current !== null && before.current !== now.path;
      before.current = now.path;
      if (!moved) return undefined;
      const { y = 0 } = history.state ?? {};
      scrollTo(0, y);
      if (!y) document.querySelector("h1")?.focus({ preventScroll: true });
      let goes = 0;
      const timer = setInterval(() => {
        if (goes++ > 20 || scrollY >= y - 1) clearInterval(timer);
        else scrollTo(0, y);
      }, 50);
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
      document.title = [now.page || "overview", ...now.parts.slice(-1), label, "METIS"].filter(Boolean).map(texts.line).join(" · ");
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
      preact.render(html`<main><p class="banner" role="alert">${error.message}</p></main>`, page);
    }
  };

  start();
})();
