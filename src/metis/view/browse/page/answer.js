// One answer: the conversation, what it earned, its group, and what the judge had said of it.
"use strict";

const answer = (() => {
  const { useLoaded } = loading;
  const PAGE = 50;
  const EXAMPLE = "The prompt shows it before its question: nobody said it in this run.";
  const ROLES = { system: "System", user: "User", assistant: "Assistant", tool: "Tool" };

  const content = (message) =>
    typeof message.content === "string"
      ? message.content
      : JSON.stringify(message.content ?? message, null, 2);

  const Turn = ({ message, search }) => {
    const role = ROLES[message.role] ? message.role : "other";
    const name = ROLES[role] ?? texts.line(String(message.role));
    const { example } = message;
    return html`<article class=${`turn ${role} ${example ? "example" : ""}`}
      aria-label=${example ? `Example: ${name}` : name}>
      <p class="role">${name}${example && html`<small title=${EXAMPLE}>example</small>`}</p>
      <div class="body"><${texts.Text} text=${content(message)} search=${search} /></div>
    </article>`;
  };

  const Endings = ({ found }) => html`
    ${found.said.length === 0 && html`<${parts.Empty}>Nothing was said before it failed.<//>`}
    ${found.truncated && html`<p class="banner">Cut off here: it reached the limit of its length
      ${typeof found.tokens === "number" && ` after ${parts.many(found.tokens, "token")}`}.</p>`}
    ${found.failure && html`<p class="banner bad">Failed: ${texts.visible(found.failure)}</p>`}
    ${found.trained === false && !found.failure && html`<p class="banner">
      Not trained on: it was rolled out and then discarded by a filter.</p>`}`;

  const Conversation = ({ found, search }) => html`
    <section class="conversation" aria-label="Conversation">
      ${found.messages.map((message, nth) => html`<${Turn} key=${`asked-${nth}`} message=${message} />`)}
      <p class="soft split">Answer ${found.rollout}</p>
      ${found.said.map((message, nth) => html`
        <${Turn} key=${`said-${nth}`} message=${message} search=${search} />`)}
      <${Endings} found=${found} />
    </section>`;

  const Sibling = ({ folder, found, each }) => {
    const judged = typeof each.score === "number";
    const kind = judged ? "" : parts.grade(each.reward);
    const earned = kind === "failed" ? "no reward" : `reward ${parts.short(each.reward)}`;
    const words = [
      `answer ${each.rollout}`,
      judged ? `predicted ${parts.number(each.score)}` : earned,
      each.truncated && "truncated",
      each.failure && "failed",
    ];
    const said = words.filter(Boolean).join(", ");
    return html`<li><a class=${`sibling ${kind}`} aria-label=${said} title=${said}
      aria-current=${each.rollout === found.rollout ? "page" : undefined}
      href=${address.answer(folder, { ...found, rollout: each.rollout })}>
      <span aria-hidden="true">${parts.SIGNS[kind] ?? "·"}${each.truncated && "⊣"}</span></a></li>`;
  };

  const Siblings = ({ folder, found }) => found.siblings?.length > 1 && html`<section class="card">
    <h2>The group <small class="soft">${parts.many(found.siblings.length, "answer")}</small></h2>
    <ul class="siblings">${found.siblings.map((each) => html`
      <${Sibling} key=${each.rollout} folder=${folder} found=${found} each=${each} />`)}</ul>
  </section>`;

  const Distribution = ({ distribution }) => {
    const rows = Object.entries(distribution);
    const most = Math.max(...rows.map(([, chance]) => chance), 1e-9);
    return html`<table class="distribution">
      <caption class="soft">Chance of each value</caption>
      <tbody>${rows.map(([value, chance]) => html`<tr>
        <th scope="row">${texts.line(value)}</th>
        <td><${charts.Bar} predicted=${chance} whole=${most} /></td>
        <td>${parts.number(chance, 2)}</td>
      </tr>`)}</tbody>
    </table>`;
  };

  const Judgment = ({ judged, reasons }) => {
    if (!judged) return null;
    const facts = [
      ["predicted variance", judged.score],
      ["realised variance", judged.variance],
      ["chance to be drawn", judged.propensity],
    ];
    const known = facts.filter(([, value]) => typeof value === "number");
    return html`<section class="card"><h2>Before it was rolled out</h2>
      ${judged.reason && html`<p>${step.meaning(judged.reason, reasons)}</p>`}
      ${judged.failure && html`<p>The judge failed: ${texts.line(judged.failure)}</p>`}
      <div class="judged"><${charts.Bar} predicted=${judged.score} realised=${judged.variance}
        whole=${charts.whole([judged])} /></div>
      <${parts.Facts} facts=${known.map(([name, value]) => [name, parts.number(value)])} />
      ${judged.reply && html`<h3>The judge wrote</h3><${texts.Text} text=${judged.reply} />`}
      ${judged.distribution && html`<${Distribution} distribution=${judged.distribution} />`}
    </section>`;
  };

  const Earned = ({ found }) => {
    const reported = Object.entries(found.parts ?? {}).map(([name, value]) => [
      name,
      texts.line(typeof value === "object" ? JSON.stringify(value) : parts.short(value)),
    ]);
    const facts = [
      ["tokens", typeof found.tokens === "number" ? parts.count(found.tokens) : ""],
      ["step", found.kind === "survey" ? "" : parts.count(found.step)],
      ["kind", found.kind],
    ];
    return html`<section class="card earned">
      <p class="big"><${parts.Reward} reward=${found.reward} score=${found.score} /></p>
      <div class="chips">
        <${parts.Troubles} truncated=${found.truncated} failure=${found.failure} /></div>
      <${parts.Facts} facts=${facts} />
      ${reported.length > 0 && html`<h3>What the reward function reported</h3>
        <${parts.Facts} facts=${reported} />`}
    </section>`;
  };

  /** What a right answer is: the reference, or the tests of it. */
  const Expected = ({ reference }) => reference && html`<section class="card expected">
    <h2>Expected</h2><${texts.Text} text=${reference} />
  </section>`;

  const place = (query) => (/^\d+$/.test(query.at ?? "") ? Number(query.at) : null);
  const pageOf = (at) => Math.floor(at / PAGE) || "";

  /** The answers before and after this one: of the search that led here, else of the folder. */
  const useBeside = (folder, found, query, revision) => {
    const [at, search] = [place(query), answers.filters(query)];
    const page = (other) => address.api(folder, ["answers"], { ...search, page: pageOf(other) });
    const before = useLoaded(at ? page(at - 1) : null, revision).value;
    const after = useLoaded(at === null ? null : page(at + 1), revision).value;
    const named = (other) => (other ? address.answer(folder, other) : null);
    if (at === null) return { previous: named(found?.previous), next: named(found?.next) };
    const link = (list, other) => {
      const item = list?.items[other % PAGE];
      return item ? address.answer(folder, item, { ...search, at: other }) : null;
    };
    const previous = at > 0 ? link(before, at - 1) : null;
    return { previous, next: link(after, at + 1), at, total: after?.total, search };
  };

  /** Where this answer belongs: its step, its prompt, and the search that led to it. */
  const Way = ({ folder, about, at, prompt, beside }) => {
    const { total, search } = beside;
    const list = total !== undefined && { ...search, page: pageOf(beside.at) };
    return html`<p class="way">
      ${about.kind === "run" && at > 0 && html`
        <a href=${address.of(folder, ["step", at])}>Step ${at}</a> · `}
      <a href=${address.of(folder, ["prompt", prompt])}>Its prompt over all steps</a>
      ${list && html`<span class="soft"> · ${parts.count(beside.at + 1)} of ${parts.count(total)} in
        ${" "}<a href=${address.of(folder, ["answers"], list)}>this list</a></span>`}
    </p>`;
  };

  const Answer = ({ folder, about, parts: [kind, at, prompt = "", rollout], query }) => {
    const key = { kind, step: at, prompt, rollout };
    const state = useLoaded(address.api(folder, ["answer"], key), about.revision);
    const found = state.value;
    const beside = useBeside(folder, found, query, about.revision);
    const group = found?.siblings?.length ?? 0;
    return html`
      <div class="heading">
        <${parts.Title} over=${texts.line(about.label)}>
          Answer ${texts.line(rollout ?? "")}
          ${group > 1 && html`<small class="soft"> one of ${group}</small>`}<//>
        <${parts.Beside} previous=${beside.previous} next=${beside.next} what="answer" />
      </div>
      <${Way} folder=${folder} about=${about} at=${at} prompt=${prompt} beside=${beside} />
      <${parts.State} state=${state} />
      ${found && html`<div class="reading">
        <${Conversation} key=${location.hash} found=${found} search=${query.q} />
        <aside aria-label="What came of it">
          <${Earned} found=${found} />
          <${Expected} reference=${found.reference} />
          <${Siblings} folder=${folder} found=${found} />
          <${Judgment} judged=${found.judgment} reasons=${about.reasons} />
        </aside>
      </div>`}`;
  };

  return { Answer };
})();
