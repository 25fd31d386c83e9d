// One answer: the conversation, what it earned and why, its siblings, and what the judge said before.
"use strict";

const answer = (() => {
  const { useLoaded } = loading;
  const PAGE = 50;
  const ROLES = { system: "System", user: "User", assistant: "Assistant", tool: "Tool" };

  const content = (message) =>
    typeof message.content === "string" ? message.content : JSON.stringify(message.content ?? message, null, 2);

  const Turn = ({ message, search, folded }) => {
    const role = ROLES[message.role] ? message.role : "other";
    return html`<article class=${`turn ${role}`} aria-label=${ROLES[role] ?? message.role}>
      <p class="role">${ROLES[role] ?? texts.line(String(message.role))}</p>
      <div class="body"><${texts.Text} text=${content(message)} search=${search} folded=${folded} /></div>
    </article>`;
  };

  const ask = (at) => html`<p class="soft split">${at}</p>`;

  const Conversation = ({ found, search }) => html`<section class="conversation" aria-label="Conversation">
    ${found.messages.map((message, place) => html`<${Turn} key=${`asked-${place}`} message=${message} folded=${message.role === "system"} />`)}
    ${found.said.length > 0 && ask(`Answer ${found.rollout + 1}`)}
    ${found.said.map((message, place) => html`<${Turn} key=${`said-${place}`} message=${message} search=${search} />`)}
    ${found.said.length === 0 && html`<${parts.Empty}>Nothing was said before it failed.<//>`}
    ${found.truncated && html`<p class="banner">Cut off here: it reached the limit of its length
      ${typeof found.tokens === "number" ? ` after ${parts.many(found.tokens, "token")}` : ""}.</p>`}
    ${found.failure && html`<p class="banner bad">Failed: ${texts.visible(found.failure)}</p>`}
    ${found.trained === false && html`<p class="banner">Not trained on: it was rolled out and then discarded by a filter.</p>`}
  </section>`;

  const Siblings = ({ folder, found }) => found.siblings?.length > 1 && html`<section class="card">
    <h2>The group <small class="soft">${parts.many(found.siblings.length, "answer")}</small></h2>
    <ul class="siblings">${found.siblings.map((each) => {
      const kind = typeof each.score === "number" ? "right" : parts.grade(each.reward);
      const said = [`answer ${each.rollout + 1}`, kind === "failed" ? "no reward" : `reward ${parts.short(each.reward ?? each.score)}`,
        each.truncated && "truncated", each.failure && "failed"].filter(Boolean).join(", ");
      return html`<li key=${each.rollout}><a class=${`sibling ${kind}`} aria-label=${said} title=${said}
        aria-current=${each.rollout === found.rollout ? "page" : undefined}
        href=${address.answer(folder, { ...found, rollout: each.rollout })}>
        <span aria-hidden="true">${parts.SIGNS[kind]}${each.truncated ? "…" : ""}</span></a></li>`;
    })}</ul>
  </section>`;

  const Distribution = ({ distribution }) => {
    const rows = Object.entries(distribution);
    const most = Math.max(...rows.map(([, chance]) => chance), 1e-9);
    return html`<table class="distribution"><caption class="soft">Chance of each value</caption><tbody>
      ${rows.map(([value, chance]) => html`<tr><th scope="row">${texts.line(value)}</th>
        <td><${charts.Bar} predicted=${chance} whole=${most} /></td><td>${parts.number(chance, 2)}</td></tr>`)}
    </tbody></table>`;
  };

  const Judgment = ({ folder, found, reasons }) => {
    const judged = found.judgment;
    if (!judged) return null;
    return html`<section class="card"><h2>Before it was rolled out</h2>
      ${judged.reason && html`<p>${step.meaning(judged.reason, reasons)}</p>`}
      ${judged.failure && html`<p>The judge failed: ${texts.line(judged.failure)}</p>`}
      <div class="judged"><${charts.Bar} predicted=${judged.score} realised=${judged.variance} whole=${charts.whole([judged])} />
      </div>
      <${parts.Facts} facts=${[
        ["predicted variance", typeof judged.score === "number" && parts.number(judged.score)],
        ["realised variance", typeof judged.variance === "number" && parts.number(judged.variance)],
        ["chance to be drawn", typeof judged.propensity === "number" && parts.number(judged.propensity)],
      ].filter(([, value]) => value)} />
      ${judged.reply && html`<h3>The judge wrote</h3><${texts.Text} text=${judged.reply} folded />`}
      ${judged.distribution && html`<${Distribution} distribution=${judged.distribution} />`}
    </section>`;
  };

  const Earned = ({ found }) => {
    const reported = Object.entries(found.parts ?? {}).map(([name, value]) => [
      name,
      value !== null && typeof value === "object" ? texts.line(JSON.stringify(value)) : texts.line(parts.short(value)),
    ]);
    return html`<section class="card earned">
      <p class="big"><${parts.Reward} reward=${found.reward} score=${found.score} /></p>
      <div class="chips"><${parts.Troubles} truncated=${found.truncated} failure=${found.failure} /></div>
      <${parts.Facts} facts=${[
        ["tokens", typeof found.tokens === "number" && parts.count(found.tokens)],
        ["step", found.kind !== "survey" && parts.count(found.step)],
        ["kind", found.kind],
      ].filter(([, value]) => value !== false)} />
      ${reported.length > 0 && html`<h3>What the reward function reported</h3><${parts.Facts} facts=${reported} />`}
    </section>`;
  };

  const pageOf = (at) => Math.floor(at / PAGE) || "";

  const place = (query) => (/^\d+$/.test(query.at ?? "") ? Number(query.at) : null);

  /** The answers before and after this one: of the search that led here, else of the folder. */
  const useBeside = (folder, found, query, revision) => {
    const at = place(query);
    const search = answers.filters(query);
    const page = (other) => address.api(folder, ["answers"], { ...search, page: pageOf(other) });
    const before = useLoaded(at ? page(at - 1) : null, revision).value;
    const after = useLoaded(at === null ? null : page(at + 1), revision).value;
    const link = (list, other) => {
      const item = list?.items[other % PAGE];
      return item ? address.answer(folder, item, { ...search, at: other }) : null;
    };
    if (at !== null) {
      return { previous: at > 0 ? link(before, at - 1) : null, next: link(after, at + 1), at, total: after?.total, search };
    }
    const named = (other) => (other ? address.answer(folder, other) : null);
    return { previous: named(found?.previous), next: named(found?.next) };
  };

  const Way = ({ folder, beside }) => beside.total !== undefined && html`<span class="soft">
    ${" "}· ${parts.count(beside.at + 1)} of ${parts.count(beside.total)} in
    ${" "}<a href=${address.of(folder, ["answers"], { ...beside.search, page: pageOf(beside.at) })}>this list</a></span>`;

  const Answer = ({ folder, about, parts: [kind, at, prompt, rollout], query }) => {
    const state = useLoaded(address.api(folder, ["answer"], { kind, step: at, prompt, rollout }), about.revision);
    const found = state.value;
    const beside = useBeside(folder, found, query, about.revision);
    return html`
      <div class="heading"><${parts.Title} over=${texts.line(about.label)}>
        Answer ${Number(rollout) + 1}${found?.siblings?.length > 1 ? html`<small class="soft"> of ${found.siblings.length}</small>` : ""}<//>
        <${parts.Beside} ...${beside} what="answer" /></div>
      <p class="way">${about.kind === "run" && html`<a href=${address.of(folder, ["step", at])}>Step ${at}</a> · `}
        <a href=${address.of(folder, ["prompt", prompt ?? ""])}>Its prompt over all steps</a>
        <${Way} folder=${folder} beside=${beside} /></p>
      <${parts.State} state=${state} />
      ${found && html`<div class="reading">
          <${Conversation} key=${location.hash} found=${found} search=${query.q} />
          <aside aria-label="What came of it"><${Earned} found=${found} /><${Siblings} folder=${folder} found=${found} />
            <${Judgment} folder=${folder} found=${found} reasons=${about.reasons} /></aside>
        </div>`}`;
  };

  return { Answer };
})();
