// The first screen: what longhaul did, the trend, the feed of requests, and the costs by day.

import { html, useEffect, useState } from '/web/vendor/preact.js';
import { isPriced, net, saved, spent, sum, usd, wouldSave } from '/web/money.js';
import { loadCounters, save, setting, state } from '/web/state.js';
import { startOf, Trend } from '/web/trend.js';
import { clock, day, done, length, mark, moment, percent, plural, short, sizes, took, when, whole } from '/web/format.js';

function Card({ name, value, note, since, isBad }) {
  return html`<div class=${'card' + (isBad ? ' alarm' : '')}><dt>${name}</dt><dd><b>${value}</b>${note && html`<span>${note}</span>`}${since && html`<span class="since">${since}</span>`}</dd></div>`;
}

// The quota windows of the logins, as their providers stated them last.
function Quota({ accounts }) {
  return accounts.flatMap((account) => account.windows.map((one) => {
    const owner = account.source + (accounts.length > 1 ? ' ' + account.account : '');
    const notes = [one.resets_at && 'resets ' + when(one.resets_at * 1000, Date.now()),
      one.without_percent && 'about ' + Math.round(one.without_percent) + '% without longhaul (estimate)',
      account.is_refused && 'the provider refuses requests'].filter(Boolean);
    return html`<${Card} key=${owner + one.minutes + one.limit} name=${`${owner} quota, ${length(one.minutes)}${one.limit && ` (${one.limit} alone)`}`}
      value=${Math.floor(one.used_percent) + '% used'} isBad=${one.used_percent >= 90 || account.is_refused} note=${notes.join('; ')} />`;
  }));
}

const NOTHING = { requests: 0, errors: 0, mended: 0, tokens_before: 0, tokens_after: 0, shadow_saved: 0,
  cost: 0, reported: 0, known: 0, unknown: 0, saved: 0, saved_unknown: 0, rewrites: 0, summaries: 0, calls_unknown: 0, would_save: 0, would_save_unknown: 0 };

// The known part of the savings, and what is not known of them.
function savings(money) {
  const balance = net(money);
  if (balance !== null) return [usd(balance), null];
  const [known, unknown] = saved(money).split(', ');
  return unknown ? [known, unknown] : ['unknown', known];
}

// Totals of today, in the reader's time, and of all days.
export function Headline({ overview, days, now }) {
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  const all = { ...NOTHING, ...sum(days) };
  const today = { ...NOTHING, ...sum(days.filter((row) => startOf(row) >= midnight)) };
  const first = days.length > 0 ? Math.min(...days.map(startOf)) : now;
  const since = first >= midnight ? () => null : (words) => words + ' since ' + moment(first).slice(0, 10);
  const left = (of) => of.tokens_before - of.tokens_after;
  const isShadow = all.shadow_saved > 0 && left(today) === 0;
  const tokens = isShadow ? (of) => of.shadow_saved : left;
  const isKnown = today.known > 0 || today.requests === 0 && all.known > 0;
  const is = today.requests > 0;
  return html`
    <section aria-label="Totals">
      <dl class="cards">
        <${Card} name=${isShadow ? 'Tokens that longhaul would have saved today' : 'Tokens saved today'} value=${short(tokens(today))}
          note=${today.tokens_before > 0 && [`${percent(tokens(today), today.tokens_before)} of ${short(today.tokens_before)} received`, isShadow && wouldSave(today)].filter(Boolean).join('; ')} since=${since(`${short(tokens(all))} of ${short(all.tokens_before)}`)} />
        ${isKnown && !isShadow ? html`<${Card} name=${(net(today) === null && is ? 'Saved today' : 'Net savings today') + ', against whole requests'} value=${is ? savings(today)[0] : usd(0)}
            note=${is && savings(today)[1]} since=${[is && 'spent ' + spent(today), since(savings(all)[0])].filter(Boolean).join('; ')} />`
          : html`<${Card} name="Spent today" value=${today.known > 0 ? usd(today.cost) : today.unknown > 0 ? 'unknown' : 'nothing'} note=${today.known + today.unknown > 0 && spent(today)} since=${since(spent(all))} />`}
        <${Card} name="Overflows mended today" value=${whole(today.mended)} since=${since(whole(all.mended))} />
        <${Card} name="Requests today" value=${whole(today.requests)} isBad=${today.errors > 0} note=${today.errors > 0 ? whole(today.errors) + ' failed' : is ? 'none failed' : null} since=${since(whole(all.requests))} />
        <${Quota} accounts=${overview.quota} />
      </dl>
    </section>`;
}

function FeedRow({ row }) {
  const found = mark(row);
  const title = state.conversations.get(row.conversation)?.title;
  return html`<li class=${'request' + (row.is_error ? ' failed' : '')}><a href=${'#/c/' + row.conversation + '/r/' + row.id}>
    <span class="time" title=${moment(row.at)}>${clock(row.at)}</span>
    <span class="title">${title || row.model || 'no model'}</span>
    <span class=${'what ' + (found ? found[2] : 'dim')}>${found ? found[0] + ' ' : ''}${done(row)}</span>
    <span class="size">${sizes(row)}</span>
    <span class="dim">${row.cost === null ? '' : usd(row.cost)}</span>
    <span class=${row.is_error ? 'bad' : 'dim'}>${row.status ?? 'client left'}</span>
    <span class="dim">${took(row.duration_ms)}</span></a></li>`;
}

const FEED_SHOWN = 15;

export function Overview({ days, now }) {
  const [isAll, show] = useState(false);
  const feed = isAll ? state.feed : state.feed.slice(0, FEED_SHOWN);
  return html`<article>
    ${days.length > 0 && html`<${Trend} days=${days} now=${now} />`}
    <h2>Requests</h2>
    ${feed.length === 0 ? html`<p class="dim">None since the start. The next one appears here.</p>` : html`<ol class="requests feed">${feed.map((row) => html`<${FeedRow} key=${row.id} row=${row} />`)}</ol>`}
    ${!isAll && state.feed.length > FEED_SHOWN && html`<button type="button" class="more" onClick=${() => show(true)}>Show ${state.feed.length - FEED_SHOWN} more</button>`}
  </article>`;
}

const COUNTERS = [
  ['longhaul_chats_total', 'chats read'], ['longhaul_summaries_total', 'summaries of a model'], ['longhaul_retries_total', 'requests sent again'],
  ['longhaul_actions_total', 'requests given up', 'gave-up'], ['longhaul_rereads_after_clear_total', 'cleared results read again'],
  ['longhaul_faults_total', 'requests that longhaul refused', '!upstream_'], ['longhaul_faults_total', 'requests that did not reach the upstream', 'upstream_'],
  ['longhaul_far_store_calls_total', 'failed calls of the store', 'failed'],
];

export function More() {
  const total = ([name, , label]) => {
    const isWanted = (labels) => !label || (label[0] === '!' ? !labels.includes(label.slice(1)) : labels.includes(label));
    return (state.counters?.[name] ?? []).filter(([labels]) => isWanted(labels)).reduce((all, [, value]) => all + value, 0);
  };
  return html`<details class="more-numbers" onToggle=${(event) => event.target.open && loadCounters()}><summary>More</summary>
    ${state.counters && html`<p class="dim">Since the start: ${COUNTERS.map((one) => whole(total(one)) + ' ' + one[1]).join(', ')}.</p>`}
    <p class="links"><a href="#/costs">Costs by day</a> <button type="button" class="link" onClick=${() => save(null, 'json')}>Save JSON</button> <button type="button" class="link" onClick=${() => save(null, 'csv')}>Save CSV</button>
      <a href="#/settings">Settings</a> <a href="/metrics">Metrics</a> <a href="/web/vendor/LICENSES.txt">Licences</a></p></details>`;
}

const host = (url) => url?.replace(/^https?:\/\//, '').replace(/\/v1$/, '');

// Upstream, mode, version, uptime and store of the process.
export function Facts({ overview, now }) {
  const mode = setting('mode');
  const store = setting('store.at');
  const messages = setting('upstream.messages');
  return html`<p class="facts">
    ${mode && mode !== 'on' && html`<b class=${'badge ' + mode}>${mode}</b>`}
    ${[setting('upstream.base'), messages].filter(Boolean).map((url) => html`<span key=${url}>→ ${host(url)}</span>`)}
    ${mode === 'on' && html`<span>mode on</span>`}
    <span>longhaul ${overview.version}</span><span>since ${when(overview.started, now)}</span>
    <span title=${store}>store ${overview.store === 'memory' ? 'in memory' : (store ?? '').split(/[:/]+/).at(-1)}</span></p>`;
}

// Problems of the process; nothing while all is well.
export function Problems({ overview, now }) {
  const { summaries: of } = overview;
  const outages = [...state.peers.values()].map((one) => one.outage).filter(Boolean);
  const told = [
    ...outages.map((one) => [true, html`<b>${host(one.origin)} cannot be reached</b> since ${when(one.since, now)}: ${one.message}`]),
    [overview.store === 'away', 'The store cannot be reached: using memory.'],
  ].filter(([is]) => is);
  const pauses = [
    [of.failing > 0, `after failures (${plural(of.failing, 'attempt')})`],
    [of.paused > 0, `while the provider throttles ${plural(of.paused, 'caller')}`],
    [of.spent, 'for the rest of the hour: the limit is reached'],
    [of.spent_callers > 0, `for the rest of the hour for ${plural(of.spent_callers, 'caller')}: the limit is reached`],
    [of.unused > 0, `in the background for ${plural(of.unused, 'conversation')}: recent ones were not used`],
    [of.unused_callers > 0, `in the background for ${plural(of.unused_callers, 'caller')}: recent ones were not used`],
  ].filter(([is]) => is).map(([, words]) => words);
  return html`${told.length > 0 && html`<ul class="problems" role="alert">${told.map(([, words], at) => html`<li key=${at}>${words}</li>`)}</ul>`}
    ${pauses.length > 0 && html`<p class="pauses dim" role="status">Summaries by a model pause ${pauses.join('; ')}. Rules write them meanwhile.</p>`}
    ${setting('mode') === 'shadow' && html`<p class="notice">Shadow: longhaul only measures, and forwards each request as it came. To switch on, start with <code>LONGHAUL_MODE=on</code>, or set <code>mode = "on"</code> and reload.</p>`}
    ${setting('mode') === 'off' && html`<p class="notice">Off: longhaul relays requests unread. To switch on, start with <code>LONGHAUL_MODE=on</code>.</p>`}`;
}

export function Costs({ days }) {
  useEffect(() => { document.title = 'Costs by day – longhaul'; return () => { document.title = 'longhaul'; }; }, []);
  const rows = new Map();
  for (const row of days) {
    const key = row.day + ' ' + row.model;
    rows.set(key, { ...NOTHING, ...sum([rows.get(key) ?? {}, row]), day: row.day, model: row.model });
  }
  return html`
    <article><a class="back" href="#/">← Overview</a>
      <h2 id="title" tabindex="-1">Costs by day and model</h2>
      <p class="dim">Days are in UTC. “Net” is compared with the same requests sent whole.</p>
      ${rows.size === 0 ? html`<p class="dim">No request yet.</p>` : html`
      <div class="scroll" tabindex="0" role="group" aria-label="Costs by day and model"><table><caption class="sr">Costs by day and model</caption>
        <thead><tr><th scope="col">Day</th><th scope="col">Model</th>${['Requests', 'Failures', 'Received', 'Forwarded', 'Cache', 'Spent', 'Net'].map((name) => html`<th scope="col" class="n" key=${name}>${name}</th>`)}</tr></thead>
        <tbody>${[...rows.values()].map((row) => html`<tr key=${row.day + row.model}><th scope="row">${day(row.day)}</th><td>${row.model}</td><td class="n">${whole(row.requests)}</td>
          <td class=${'n' + (row.errors ? ' bad' : '')}>${whole(row.errors)}</td><td class="n">${short(row.tokens_before)}</td><td class="n">${short(row.tokens_after)}</td>
          <td class="n">${percent(row.cached_tokens, row.prompt_tokens)}</td><td class="n">${row.known === 0 ? 'unknown' : usd(row.cost) + (isPriced(row) ? '' : ' +')}</td><td class="n">${net(row) === null ? 'unknown' : usd(net(row))}</td></tr>`)}</tbody></table></div>`}
    </article>`;
}

export function Settings({ config }) {
  return html`<article><a class="back" href="#/">← Overview</a><h2 id="title" tabindex="-1">Settings</h2>
    <table><caption class="sr">Settings</caption><tbody>${(config ?? []).map(({ key, value, source }) => html`<tr key=${key}><th scope="row"><code>${key}</code></th><td>${[value].flat().join(', ')}</td><td class="dim">${source}</td></tr>`)}</tbody></table></article>`;
}
