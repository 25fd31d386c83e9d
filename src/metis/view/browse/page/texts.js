// Text that others wrote: shown as it is, never as markup, with nothing in it that hides.
"use strict";

const texts = (() => {
  const { useState } = preactHooks;
  const LETTERS = 3000;
  const LINES = 40;
  const MOST_HITS = 500;
  const HIDDEN = new RegExp(
    "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b\\u200e\\u200f" +
      "\\u2028-\\u202e\\u2060-\\u2069\\ufeff]",
    "g",
  );

  const CONTROLS = (
    "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI " +
    "DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US"
  ).split(" ");

  const sign = (character) => {
    const code = character.charCodeAt(0);
    const name = CONTROLS[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    return `\u27e8${name}\u27e9`;
  };

  /** The same text, with a sign for every character that is obeyed or not seen. */
  const visible = (text) => text.replace(/\r\n/g, "\n").replace(HIDDEN, sign);

  /** One line of a text, for lists. */
  const line = (text) => visible(text.replace(/\s+/g, " ").trim());

  const quoted = (word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

  /** Where the words of a search are in a text; all of them together, if they are. */
  const found = (text, search) => {
    const words = search?.replaceAll('"', "").trim() ?? "";
    if (!words) return [];
    const places = (pattern) =>
      [...text.matchAll(new RegExp(pattern, "giu"))].map((hit) => [
        hit.index,
        hit.index + hit[0].length,
      ]);
    const whole = places(quoted(words));
    const hits = whole.length ? whole : places(words.split(/\s+/).map(quoted).join("|"));
    return hits.slice(0, MOST_HITS);
  };

  const pieces = (text, hits) => {
    const parts = [];
    let end = 0;
    for (const [from, to] of hits) {
      if (from < end) continue;
      parts.push(visible(text.slice(end, from)));
      parts.push(html`<mark>${visible(text.slice(from, to))}</mark>`);
      end = to;
    }
    return [...parts, visible(text.slice(end))];
  };

  /** A snippet with its hits marked. */
  const Snippet = ({ text, hits }) =>
    html`<span dir="auto">${pieces(text.replace(/\s/g, " "), hits ?? [])}</span>`;

  /** The start of a text that is shown before it is unfolded. */
  const head = (text) => {
    const lines = text.split("\n", LINES + 1);
    const start = lines.length > LINES ? lines.slice(0, LINES).join("\n") : text;
    if (start.length <= LETTERS * 1.3) return start;
    return start.slice(0, LETTERS).replace(/[\ud800-\udbff]$/, "");
  };

  const size = (text) => `${text.length.toLocaleString("en")} characters`;

  /** A text as it was written, folded where it is long. */
  const Text = ({ text, search, folded = false }) => {
    const start = head(text);
    const hits = found(text, search);
    const [open, setOpen] = useState(!folded && hits.some(([from]) => from >= start.length));
    const long = start.length < text.length;
    const shown = open || !long ? text : start;
    const marked = hits.filter(([, to]) => to <= shown.length);
    const content = marked.length ? pieces(shown, marked) : visible(shown);
    if (!text) return html`<p class="soft">(empty)</p>`;
    return html`<pre class="text" dir="auto">${content}${long && !open && "…"}</pre>
      ${long && html`<button class="quiet" aria-expanded=${open} onClick=${() => setOpen(!open)}>
        ${open ? "Fold" : `Show all ${size(text)}`}
      </button>`}`;
  };

  return { Snippet, Text, line, visible };
})();
