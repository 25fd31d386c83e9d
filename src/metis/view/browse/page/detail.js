// One prompt in one step: why it was chosen, what was predicted, what was written and earned.
"use strict";

const detail = (() => {
  const Facts = ({ facts }) => html`<dl class="facts">
    ${facts
      .filter(([, value]) => value !== undefined && value !== "")
      .map(([name, value, meaning]) => html`<div><dt>${name}</dt>
        <dd>${value}${meaning && html`<small>${meaning}</small>`}</dd></div>`)}
  </dl>`;

  const Distribution = ({ distribution }) => html`<h4>Predicted</h4>
    <table class="distribution"><tbody>
      ${Object.entries(distribution).map(([value, chance]) => html`<tr>
        <th scope="row">${value}</th>
        <td><progress value=${chance} max="1">${chance}</progress></td>
        <td>${parts.number(chance, 2)}</td>
      </tr>`)}
    </tbody></table>`;

  const Exemplars = ({ exemplars }) => html`<h4>The judge was shown</h4>
    <ul>${exemplars.map((each) => html`<li>
      ${each.prompt}: value ${Number(each.value)}, v ${parts.number(each.variance)} in step
      ${" "}${each.outcome_step}
    </li>`)}</ul>`;

  const Answer = ({ row, text, place }) => {
    const reported = Object.entries(row.reported?.[place] ?? {});
    const said = [`reward ${row.rewards[place]}`];
    if (row.tokens?.[place] !== undefined) said.push(`${row.tokens[place]} tokens`);
    said.push(...reported.map(([name, value]) => `${name} ${value}`));
    return html`<h4>Answer ${place + 1} <small>${said.join(" · ")}</small></h4>
      <pre>${text || "(empty)"}</pre>`;
  };

  const Texts = ({ row }) => html`
    ${row.text && html`<h4>Prompt</h4><pre>${row.text}</pre>`}
    ${row.reply && html`<h4>The judge wrote</h4><pre>${row.reply}</pre>`}
    ${(row.answers ?? []).map((text, place) => html`<${Answer} ...${{ row, text, place }} />`)}
    ${row.rewards && !row.answers?.length && html`<p class="muted">
      No answer of this group was kept: <code>answers</code> in the settings says how many are.
    </p>`}`;

  const Detail = ({ run, row, close, every }) => {
    const dialog = preactHooks.useRef();
    preactHooks.useEffect(() => dialog.current.showModal(), [row]);
    const facts = [
      ["step", row.step],
      ["category", row.category],
      ["reason", row.reason, run.reasons[row.reason]],
      ["failure", row.failure],
      ["predicted v̂", parts.number(row.score)],
      ["realised v", parts.number(row.variance)],
      ["outcome", row.outcome],
      ["rewards", row.rewards && html`<${parts.Marks} row=${row} />`],
      ["propensity", parts.number(row.propensity)],
    ];
    return html`<dialog ref=${dialog} onClose=${close} aria-labelledby="detail-title">
      <article>
        <header>
          <button rel="prev" aria-label="Close" onClick=${() => dialog.current.close()}></button>
          <p><small>${run.label}</small><strong id="detail-title">${row.prompt}</strong></p>
        </header>
        <${Facts} facts=${facts} />
        <${Texts} row=${row} />
        ${row.distribution && html`<${Distribution} distribution=${row.distribution} />`}
        ${run.exemplars[row.step] && html`<${Exemplars} exemplars=${run.exemplars[row.step]} />`}
        <footer><button class="secondary" onClick=${() => every(row.prompt)}>
          Every step of this prompt
        </button></footer>
      </article>
    </dialog>`;
  };

  return { Detail };
})();
