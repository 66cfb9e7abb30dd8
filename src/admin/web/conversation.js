// One conversation: headline, chart, requests, summary and money.

import { html, useEffect, useRef, useState } from '/web/vendor/preact.js';
import { Explanation } from '/web/explanation.js';
import { Chart } from '/web/chart.js';
import { Keep } from '/web/commands.js';
import { MoneyTable, usd } from '/web/money.js';
import { loadDetails, save, state } from '/web/state.js';
import { ago, clock, done, failure, mark, miss, moment, percent, plural, short, sizes, took, whole } from '/web/format.js';

const TABS = ['Requests', 'Summary', 'Money', 'Keep'];
const PAGE = 50;

function Request({ point, before, one, isOpen }) {
  const found = mark(point);
  const lost = miss(point, before);
  const line = useRef(null);
  const show = () => line.current?.scrollIntoView({ block: 'nearest' });
  const toggle = () => { location.hash = '#/c/' + one.key + (isOpen ? '' : '/r/' + point.id); };
  return html`
    <li ref=${line} class=${'request' + (point.is_error ? ' failed' : '')}>
      <button type="button" aria-expanded=${String(isOpen)} onClick=${toggle}>
        <span class="number">${point.number}</span>
        <span class="time" title=${moment(point.at)}>${clock(point.at)}</span>
        <span class=${'what ' + (found ? found[2] : 'dim')}>${found ? found[0] + ' ' : ''}${done(point)}</span>
        <span class="size">${sizes(point)}</span>
        <span class=${lost ? 'warn' : 'dim'} title=${lost ? short(lost.tokens) + ' tokens read again, caused by ' + lost.cause : null}>${point.cached_tokens !== null && point.prompt_tokens ? 'cache ' + percent(point.cached_tokens, point.prompt_tokens) : ''}</span>
        <span class="dim">${point.cost === null ? '' : usd(point.cost)}</span>
        <span class=${point.is_error ? 'bad' : 'dim'}>${point.status ?? 'client left'}</span>
        <span class="dim">${took(point.duration_ms)}</span>
      </button>
      ${isOpen && lost && html`<p class="explanation warn">The provider read ${whole(lost.tokens)} tokens again, caused by ${lost.cause}.</p>`}
      ${isOpen && html`<${Explanation} point=${point} base=${one.base} onShown=${show} />`}
    </li>`;
}

function Requests({ points, one, open }) {
  const [isOnlyChanged, show] = useState(false);
  // Rows stay once they are shown, however many requests follow.
  const [oldest, setOldest] = useState(null);
  const wanted = points.filter((point) => !isOnlyChanged || point.rewritten || point.is_error || point.refused !== null || point.id === open);
  const newest = wanted.slice().reverse();
  const first = newest[Math.min(PAGE, newest.length) - 1]?.number ?? null;
  const from = Math.min(oldest ?? first, first, points.find((point) => point.id === open)?.number ?? Infinity);
  const shown = newest.filter((point) => point.number >= from);
  const older = newest.slice(shown.length);
  const start = points[0]?.number ?? 0;
  useEffect(() => { if (oldest === null && first !== null) setOldest(first); }, [oldest === null && first]);
  return html`
    <div class="tools"><label><input type="checkbox" checked=${isOnlyChanged} onChange=${(event) => show(event.target.checked)} /> only requests with a new change or an error</label>
      <span>Save as <button type="button" class="link" onClick=${() => save(one, 'csv')}>CSV</button> <button type="button" class="link" onClick=${() => save(one, 'json')}>JSON</button></span></div>
    ${wanted.length === 0 && points.length > 0 && html`<p class="dim">No such request.</p>`}
    <ol class="requests">${shown.map((point) => html`<${Request} key=${point.id} point=${point} before=${points[point.number - start - 1]} one=${one} isOpen=${point.id === open} />`)}</ol>
    ${older.length > 0 && html`<button type="button" class="more" onClick=${() => setOldest(older[Math.min(PAGE, older.length) - 1].number)}>Show ${Math.min(PAGE, older.length)} older requests</button>`}`;
}

function Summary({ summary, one }) {
  if (summary) return html`<pre class="summary" tabindex="0">${summary}</pre>`;
  return html`<p class="dim">No text to show. A summary is in use only once the conversation has reached its threshold, and its text is shown only with <code>admin.show_content = true</code>.</p>
    ${one.compacting !== null && html`<p>A summary is being made.</p>`}`;
}

export function windowWords(note) {
  return note ? whole(note.tokens) + ' (' + note.source + ')' : 'unknown';
}

// How often the agent asked for a cleared result again: the test of the clearing. Mode shadow clears none.
function Again({ one, points }) {
  const cleared = points.reduce((sum, point) => sum + (point.shadow === null ? point.newly_cleared : 0), 0);
  if (cleared === 0 && one.rereads === 0) return null;
  return html` · asked again for ${whole(one.rereads)}${cleared > 0 && one.rereads <= cleared ? ' of ' + plural(cleared, 'cleared result') : ' cleared results'}`;
}

export function Conversation({ one, request, now, isOnly }) {
  const [tab, choose] = useState(TABS[0]);
  useEffect(() => { loadDetails(one); }, [one.key, one.requests, one.last, one.errors, one.tokens_after, state.details.get(one.key)?.isStale]);
  useEffect(() => { document.title = (one.title || one.model) + ' – longhaul'; return () => { document.title = 'longhaul'; }; }, [one.title]);
  useEffect(() => { if (request) choose('Requests'); }, [request]);
  const details = state.details.get(one.key) ?? { points: [] };
  const may = state.peers.get(one.base)?.commands;
  const tabs = TABS.filter((name) => name !== 'Keep' || may);
  const { points } = details;
  const open = (point) => { location.hash = '#/c/' + one.key + '/r/' + point.id; };
  const arrow = (event, at) => {
    const to = event.key === 'ArrowRight' ? at + 1 : event.key === 'ArrowLeft' ? at - 1 : null;
    if (to === null || !tabs[to]) return;
    choose(tabs[to]);
    event.currentTarget.parentElement.children[to].focus();
  };
  const lost = points.map((point, at) => miss(point, points[at - 1])).filter(Boolean);
  return html`
    <article>
      ${!isOnly && html`<a class="back" href="#/">← Overview</a>`}
      <h2 id="title" tabindex="-1">${one.title || 'Conversation of ' + moment(one.last).slice(0, 16)}</h2>
      <p class="facts">${[one.agent, one.model].filter(Boolean).join(' · ')} · window ${windowWords(one.window_note)} ·
        ${' '}${plural(one.requests, 'request')}${one.errors > 0 && html`, <b class="bad">${plural(one.errors, 'error')}</b>`} · ${ago(one.last, now)}<${Again} one=${one} points=${points} />
        ${one.compacting !== null && html` · <b class="record">summary being made</b>`}${one.compacts_next && html` · <b class="record">compacted with its next request</b>`}</p>
      <p class="dim">Conversation <code>${one.id}</code>, caller <code>${one.caller}</code></p>
      ${one.body && one.body !== one.title && html`<p class="latest"><span class="dim">Latest message: </span>${one.body}</p>`}
      ${details.error && html`<p class="bad">No details: ${details.error}</p>`}
      ${details.isLoaded && points.length === 0 && html`<p class="hint">Only totals are kept of a conversation over a restart. Its next request appears here.</p>`}
      ${points.length > 0 && html`<${Chart} key=${points.length > 1} points=${points} onOpen=${open} />`}
      <div class="tabs" role="tablist" aria-label="Details">
        ${tabs.map((name, at) => html`<button type="button" role="tab" key=${name} id=${'tab-' + name} aria-selected=${String(name === tab)} aria-controls="panel"
          tabindex=${name === tab ? 0 : -1} onClick=${() => choose(name)} onKeyDown=${(event) => arrow(event, at)}>${name}</button>`)}
      </div>
      <div id="panel" role="tabpanel" aria-labelledby=${'tab-' + tab}>
        ${tab === 'Requests' && html`<${Requests} points=${points} one=${one} open=${request} />`}
        ${tab === 'Summary' && html`<${Summary} summary=${details.summary} one=${one} />`}
        ${tab === 'Money' && html`<${MoneyTable} one=${one} list=${lost} config=${state.config} may=${may} />`}
        ${tab === 'Keep' && may && html`<${Keep} one=${one} kept=${details.kept ?? []} />`}
      </div>
    </article>`;
}
