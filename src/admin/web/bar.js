// A request as two bars of the same scale: what the agent sent, and what the model received.

import { html } from '/web/vendor/preact.js';
import { percent, short, whole } from '/web/format.js';

// Messages that longhaul never changes: the head, rules that the agent loaded, words of the user.
const FIXED = ['head', 'instructions', 'user-words', 'pinned', 'exempt'];

const kindOf = (row) => row.action === 'kept' ? (FIXED.includes(row.verdict) || row.role === 'user' ? 'fixed' : 'kept') : row.action;

const label = (row) => (row.through === undefined ? 'message ' + row.number + (row.role ? ', ' + [row.role, row.tool].filter(Boolean).join(' ') : '')
  : 'messages ' + row.number + ' to ' + row.through) + ': ' + whole(row.tokens) + ' tokens, ' + row.action;

function Cell({ name, tokens, all, title, onOpen }) {
  return html`<i class=${'cell ' + name} style=${{ width: 100 * tokens / all + '%' }} title=${title} onClick=${onOpen}></i>`;
}

export function Bar({ explanation, onOpen }) {
  const { messages: rows, digest, totals, omitted } = explanation;
  if (rows.length < 2 || omitted > 0) return null;
  const all = Math.max(1, rows.reduce((sum, row) => sum + row.tokens, 0), rows.reduce((sum, row) => sum + row.becomes, digest?.tokens ?? 0));
  const segments = digest ? (digest.segments.length ? digest.segments : [{ ...digest, compactions: 1 }]) : [];
  const received = [];
  let from = digest?.from;
  for (const row of rows) {
    if (digest && row.number === digest.from) {
      for (const segment of segments) {
        received.push(html`<${Cell} key=${'s' + segment.through} name="added" tokens=${segment.tokens} all=${all} onOpen=${() => onOpen('digest')}
          title=${'summary of messages ' + from + ' to ' + segment.through + ': ' + whole(segment.tokens) + ' tokens'} />`);
        from = segment.through + 1;
      }
    }
    if (row.becomes > 0) received.push(html`<${Cell} key=${row.number} name=${kindOf(row)} tokens=${row.becomes} all=${all} title=${label(row)} onOpen=${() => onOpen(row.number)} />`);
  }
  const kinds = new Set(rows.map(kindOf));
  const legend = [['fixed', 'never changed: head, rules, words of the user'], ['kept', 'kept'], ['cleared', 'cleared'], ['clipped', 'clipped'], ['reduced', 'reduced'],
    ['summarised', 'replaced by a summary'], ...(digest ? [['added', segments.length > 1 ? 'summary, in ' + segments.length + ' layers' : 'summary']] : [])];
  return html`<div class="bars">
    <p>The agent sent <b>${short(totals.before)}</b></p>
    <div class="bar" role="img" aria-label=${'Messages that the agent sent; the table below lists them'}>
      ${rows.map((row) => html`<${Cell} key=${row.number} name=${kindOf(row)} tokens=${row.tokens} all=${all} title=${label(row)} onOpen=${() => onOpen(row.number)} />`)}</div>
    <p>The model ${explanation.mode === 'shadow' ? 'would receive' : 'received'} <b>${short(totals.after)}</b>${totals.after < totals.before && html` <span class="dim">${percent(totals.before - totals.after, totals.before)} less</span>`}</p>
    <div class="bar" role="img" aria-label="Messages that the model received">${received}</div>
    <ul class="legend">${legend.filter(([kind]) => kinds.has(kind) || kind === 'added').map(([kind, words]) => html`<li key=${kind}><i class=${'cell ' + kind}></i>${words}</li>`)}</ul>
  </div>`;
}
