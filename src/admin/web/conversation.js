// One conversation: headline, chart, requests, summary and money.

import { html, useEffect, useRef, useState } from '/web/vendor/preact.js';
import { Explanation } from '/web/explanation.js';
import { Chart } from '/web/chart.js';
import { loadDetails, state } from '/web/state.js';
import { ago, clock, done, mark, moment, net, percent, plural, PRICE_HINT, short, took, usd, whole } from '/web/format.js';

const TABS = ['Requests', 'Summary', 'Money'];
const PAGE = 50;

function Request({ point, id, isOpen }) {
  const found = mark(point);
  const line = useRef(null);
  const show = () => line.current?.scrollIntoView({ block: 'nearest' });
  const toggle = () => { location.hash = isOpen ? '#/c/' + id : '#/c/' + id + '/r/' + point.id; };
  return html`
    <li ref=${line} class=${'request' + (point.is_error ? ' failed' : '')}>
      <button type="button" aria-expanded=${String(isOpen)} onClick=${toggle}>
        <span class="number">${point.number}</span>
        <span class="time" title=${moment(point.at)}>${clock(point.at)}</span>
        <span class=${'what ' + (found ? found[2] : 'dim')}>${found ? found[0] + ' ' : ''}${done(point)}</span>
        <span class="size">${point.before === point.after ? short(point.before) : short(point.before) + ' → ' + (point.went_on ? short(point.after) : 'nothing')}</span>
        <span class="dim">${point.cached_tokens !== null && point.prompt_tokens ? 'cache ' + percent(point.cached_tokens, point.prompt_tokens) : ''}</span>
        <span class="dim">${point.cost === null ? '' : usd(point.cost)}</span>
        <span class=${point.is_error ? 'bad' : 'dim'}>${point.status ?? 'client left'}</span>
        <span class="dim">${took(point.duration_ms)}</span>
      </button>
      ${isOpen && html`<${Explanation} point=${point} onShown=${show} />`}
    </li>`;
}

function Requests({ points, id, open }) {
  const [isOnlyChanged, show] = useState(false);
  // Rows stay once they are shown, however many requests follow.
  const [oldest, setOldest] = useState(null);
  const wanted = points.filter((point) => !isOnlyChanged || point.rewritten || point.is_error || point.refused !== null || point.id === open);
  const newest = wanted.slice().reverse();
  const first = newest[Math.min(PAGE, newest.length) - 1]?.number ?? null;
  const from = Math.min(oldest ?? first, first, points.find((point) => point.id === open)?.number ?? Infinity);
  const shown = newest.filter((point) => point.number >= from);
  const older = newest.slice(shown.length);
  useEffect(() => { if (oldest === null && first !== null) setOldest(first); }, [oldest === null && first]);
  return html`
    <div class="tools"><label><input type="checkbox" checked=${isOnlyChanged} onChange=${(event) => show(event.target.checked)} /> only requests with a new change or an error</label>
      <a href=${'/conversations/' + id + '/export.csv'} download=${'longhaul-' + id + '.csv'}>CSV</a>
      <a href=${'/conversations/' + id} download=${'longhaul-' + id + '.json'}>JSON</a></div>
    ${wanted.length === 0 && html`<p class="dim">No such request.</p>`}
    <ol class="requests">${shown.map((point) => html`<${Request} key=${point.id} point=${point} id=${id} isOpen=${point.id === open} />`)}</ol>
    ${older.length > 0 && html`<button type="button" class="more" onClick=${() => setOldest(older[Math.min(PAGE, older.length) - 1].number)}>Show ${Math.min(PAGE, older.length)} older requests</button>`}`;
}

function Summary({ summary, one }) {
  if (summary) return html`<pre class="summary" tabindex="0">${summary}</pre>`;
  return html`<p class="dim">No text to show. A summary is in use only once the conversation has reached its mark, and its text is shown only with <code>admin.show_content = true</code>.</p>
    ${one.compacting !== null && html`<p>A summary is being made.</p>`}`;
}

export function MoneyTable({ money, prompt, rereads, lost, dropped = 0 }) {
  const unknown = (number, what) => `unknown for ${plural(number, what)}: ${PRICE_HINT}`;
  const balance = net(money);
  const rows = [
    ['Spent', money.cost === 0 && money.unknown > 0 ? unknown(money.unknown, 'request')
      : usd(money.cost) + (money.unknown > 0 ? ', ' + unknown(money.unknown, 'request') : '')],
    ['Saved', money.saved === 0 && money.saved_unknown > 0 ? unknown(money.saved_unknown, 'token')
      : usd(money.saved) + (money.saved_unknown > 0 ? ', ' + unknown(money.saved_unknown, 'token') : '')],
    ['Cache misses caused', usd(money.rewrites)],
    ['Summaries', money.summaries === 0 && money.calls_unknown > 0 ? unknown(money.calls_unknown, 'call') : usd(money.summaries)],
    ['Net savings', balance === null ? 'unknown: ' + PRICE_HINT : usd(balance)],
    ['Cache hit rate', prompt.prompt_tokens > 0 ? percent(prompt.cached_tokens, prompt.prompt_tokens) : 'unknown: the provider reports no token counts'],
    ['Re-reads after clearing', whole(rereads)],
    ['Reasoning lost to edits', `${whole(lost)} items${dropped > 0 ? `; a reply reports ${whole(dropped)} as dropped` : ''}`],
  ];
  return html`<table class="money"><caption class="sr">Money</caption><tbody>${rows.map(([name, value]) => html`<tr key=${name}><th scope="row">${name}</th><td>${value}</td></tr>`)}</tbody></table>`;
}

export function windowWords(note) {
  return note ? whole(note.tokens) + ' (' + note.source + ')' : 'unknown';
}

export function Conversation({ one, request, now }) {
  const [tab, choose] = useState(TABS[0]);
  useEffect(() => { loadDetails(one.id); }, [one.id, one.requests, one.last, one.errors, one.tokens_after, state.details.get(one.id)?.isStale]);
  useEffect(() => { document.title = (one.title || one.model) + ' – longhaul'; return () => { document.title = 'longhaul'; }; }, [one.title]);
  useEffect(() => { if (request) choose('Requests'); }, [request]);
  const details = state.details.get(one.id) ?? { points: [] };
  const open = (point) => { location.hash = '#/c/' + one.id + '/r/' + point.id; };
  const arrow = (event, at) => {
    const to = event.key === 'ArrowRight' ? at + 1 : event.key === 'ArrowLeft' ? at - 1 : null;
    if (to === null || !TABS[to]) return;
    choose(TABS[to]);
    event.currentTarget.parentElement.children[to].focus();
  };
  return html`
    <article>
      <a class="back" href="#/">← All conversations</a>
      <h2 id="title" tabindex="-1">${one.title || 'Untitled conversation'}</h2>
      <p class="facts">${[one.agent, one.model].filter(Boolean).join(' · ')} · window ${windowWords(one.window_note)} ·
        ${' '}${plural(one.requests, 'request')}${one.errors > 0 && html`, <b class="bad">${plural(one.errors, 'error')}</b>`} · ${ago(one.last, now)}
        ${one.compacting !== null && html` · <b class="record">summary being made</b>`}</p>
      <p class="dim">Conversation <code>${one.id}</code>, caller <code>${one.caller}</code></p>
      ${one.body && one.body !== one.title && html`<p class="latest"><span class="dim">Latest message: </span>${one.body}</p>`}
      ${details.error && html`<p class="bad">No details: ${details.error}</p>`}
      ${details.points.length > 0 && html`<${Chart} points=${details.points} onOpen=${open} />`}
      <div class="tabs" role="tablist" aria-label="Details">
        ${TABS.map((name, at) => html`<button type="button" role="tab" key=${name} id=${'tab-' + name} aria-selected=${String(name === tab)} aria-controls="panel"
          tabindex=${name === tab ? 0 : -1} onClick=${() => choose(name)} onKeyDown=${(event) => arrow(event, at)}>${name}</button>`)}
      </div>
      <div id="panel" role="tabpanel" aria-labelledby=${'tab-' + tab}>
        ${tab === 'Requests' && html`<${Requests} points=${details.points} id=${one.id} open=${request} />`}
        ${tab === 'Summary' && html`<${Summary} summary=${details.summary} one=${one} />`}
        ${tab === 'Money' && html`<${MoneyTable} money=${one.money} prompt=${one} rereads=${one.rereads} lost=${one.lost_reasoning} dropped=${one.dropped_reasoning} />`}
      </div>
    </article>`;
}
