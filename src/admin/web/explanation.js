// The explanation of one request: its bar, its layers, every message, what became of it, and why.

import { html, useEffect, useRef } from '/web/vendor/preact.js';
import { Bar } from '/web/bar.js';
import { loadExplanation, state } from '/web/state.js';
import { failure, whole } from '/web/format.js';

// What the user said that the summary does not hold whole.
function shortened({ clipped_messages, left_out_messages, left_out_agreements }) {
  return [
    [clipped_messages, 'messages of the user are clipped'],
    [left_out_messages, 'messages of the user are left out'],
    [left_out_agreements, 'agreements or rules are left out'],
  ].filter(([count]) => count > 0).map(([count, which]) => '; ' + count + ' ' + which).join('');
}

function Layers({ layers }) {
  return html`
    <table>
      <caption class="sr">Layers of the forwarded request</caption>
      <thead><tr><th scope="col">Layer</th><th scope="col" class="n">Message</th><th scope="col" class="n">Messages</th>
        <th scope="col" class="n">Cleared</th><th scope="col" class="n">Clipped</th><th scope="col" class="n">Tokens</th><th scope="col" class="n">Freed</th></tr></thead>
      <tbody>${layers.map((one) => html`
        <tr key=${one.layer}><th scope="row">${one.layer}</th>
          <td class="n">${one.from === one.through ? one.from : one.from + '–' + one.through}</td><td class="n">${whole(one.messages)}</td>
          <td class="n">${whole(one.cleared)}</td><td class="n">${whole(one.clipped)}</td><td class="n">${whole(one.tokens)}</td><td class="n">${whole(one.freed)}</td></tr>`)}
      </tbody>
    </table>`;
}

function rowsOf(explanation, request) {
  const digest = explanation.digest;
  const rows = [];
  for (const row of explanation.messages) {
    if (digest && row.action === 'summarised' && digest.from <= row.number && rows.every((one) => one.key !== 'digest')) {
      rows.push({ key: 'digest', number: '+', what: request.actions.includes('digest') ? 'digest' : 'summary', tokens: null, becomes: digest.tokens, action: 'added',
        reason: 'stands for messages ' + digest.from + ' to ' + digest.through + shortened(digest.shortened) });
    }
    const isRun = row.through !== undefined;
    rows.push({ ...row, key: row.number, number: isRun ? row.number + '–' + row.through : row.number,
      what: isRun ? row.through - row.number + 1 + ' messages' : [row.role, row.tool, row.subject].filter(Boolean).join(' '),
      isNew: row.since === request.number });
  }
  return rows;
}

function Messages({ explanation, request }) {
  return html`
    <div class="scroll" tabindex="0" role="group" aria-label="Messages of the request">
    <table class="messages">
      <caption class="sr">Messages of the request</caption>
      <thead><tr><th scope="col" class="n">Message</th><th scope="col">Author, tool</th><th scope="col" class="n">Tokens</th><th scope="col" class="n">Forwarded</th>
        <th scope="col">Done</th><th scope="col">Why</th></tr></thead>
      <tbody>
        ${explanation.omitted > 0 && html`<tr key="omitted"><td colspan="6">${whole(explanation.omitted)} older rows are not kept.</td></tr>`}
        ${rowsOf(explanation, request).map((row) => html`
          <tr key=${row.key} class=${row.action} data-row=${row.key}>
            <th scope="row" class="n">${row.number}</th><td>${row.what}</td>
            <td class="n">${row.tokens === null ? '' : whole(row.tokens)}</td><td class="n">${whole(row.becomes)}</td>
            <td class="action">${row.action}</td>
            <td>${row.reason}${row.since !== undefined && html`<span class=${row.isNew ? 'new' : 'dim'}>${row.isNew ? ' new in this request' : ' since request ' + row.since}</span>`}
              ${row.asked_again !== undefined && html` <b class="warn">The agent asked for it again in request ${row.asked_again}.</b>`}</td>
          </tr>
          ${row.text && html`<tr key=${row.key + 'text'} class="difference" data-text=${row.key}><td colspan="6">
            <details><summary>Text before and after</summary><div class="sides">
              <div><h5>The agent sent</h5><pre tabindex="0">${row.text.before}</pre></div>
              <div><h5>The model received</h5><pre tabindex="0">${row.text.after}</pre></div>
            </div></details></td></tr>`}`)}
      </tbody>
    </table></div>`;
}

export function Explanation({ point, base, onShown }) {
  const place = useRef(null);
  const { explanation, error } = state.explanations.get(point.id) ?? {};
  useEffect(() => { if (point.has_account) loadExplanation(point.id, base); }, [point.id]);
  useEffect(() => { if (explanation || error) onShown(); }, [Boolean(explanation || error)]);
  if (!point.has_account) {
    return html`<p class="explanation dim">${point.fault
      ? html`${failure(point)} (<code>${point.fault}</code>)${point.went_on ? '' : ': the upstream received nothing'}. The reply and the log have the reason; <code>longhaul doctor</code> tests the upstream.`
      : 'No explanation is kept of this request: it is too old.'}</p>`;
  }
  if (error) return html`<p class="bad">No explanation: ${error}</p>`;
  if (!explanation) return html`<p class="dim" aria-busy="true">Loading the explanation …</p>`;
  const { request, prune, tool_share, tool_schemas: tools } = explanation;
  const openRow = (key) => {
    const text = place.current.querySelector(`[data-text="${key}"] details`);
    if (text) text.open = true;
    const row = place.current.querySelector(`[data-row="${key}"]`);
    row?.scrollIntoView({ block: 'center' });
    row?.animate([{ background: 'var(--chosen)' }, { background: 'transparent' }], 1500);
  };
  return html`
    <div class="explanation" ref=${place}>
      <p><b>Why:</b> ${explanation.why}.</p>
      <${Bar} explanation=${explanation} onOpen=${openRow} />
      <p class="dim">Window ${whole(explanation.window.tokens)} (${explanation.window.source}); a summary is prepared from ${whole(explanation.marks.soft)} estimated tokens on, and used from ${whole(explanation.marks.hard)}.
        ${tools.tokens > 0 && ` Tool schemas take ${whole(tools.tokens)} estimated tokens, ${tool_share}% of the window; the largest: ${tools.largest.map(([name, tokens]) => `${name} ${whole(tokens)}`).join(', ')}.`}
        ${prune ? ` The rule keeps the newest ${whole(prune.protect_tokens)} tokens of results.` : ' Clearing is switched off.'}
        ${' '}Request <code>${request.id}</code>: <code>longhaul explain --request ${request.id}${location.port === '8485' ? '' : ' --admin ' + location.host}</code>.</p>
      ${explanation.layers.length > 0 && html`<${Layers} layers=${explanation.layers} />`}
      <${Messages} explanation=${explanation} request=${request} />
    </div>`;
}
