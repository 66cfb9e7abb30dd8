// The headline of the process, and the costs by day.

import { html, useEffect } from '/web/vendor/preact.js';
import { MoneyTable } from '/web/conversation.js';
import { loadDays, state } from '/web/state.js';
import { day, length, net, percent, plural, PRICE_HINT, short, until, usd, whole } from '/web/format.js';

function Card({ name, value, note, isBad }) {
  return html`<div class=${'card' + (isBad ? ' alarm' : '')}><dt>${name}</dt><dd><b>${value}</b>${note && html`<span>${note}</span>`}</dd></div>`;
}

// The quota windows of the logins, as their providers stated them last.
function Quota({ accounts }) {
  return accounts.flatMap((account) => account.windows.map((one) => {
    const owner = account.source + (accounts.length > 1 ? ' ' + account.account : '');
    const notes = [one.resets_at && 'resets ' + until(one.resets_at * 1000, Date.now()),
      one.without_percent && 'about ' + Math.round(one.without_percent) + '% without longhaul',
      account.is_refused && 'the provider refuses requests'].filter(Boolean);
    return html`<${Card} key=${owner + one.minutes + one.limit} name=${`${owner} quota, ${length(one.minutes)}${one.limit && ` (${one.limit} alone)`}`}
      value=${Math.floor(one.used_percent) + '% used'} isBad=${one.used_percent >= 90 || account.is_refused} note=${notes.join('; ')} />`;
  }));
}

// Money of the whole process in the shape of a conversation's.
const asConversation = (money) => ({ ...money, cost: money.reported + money.listed });

export function Headline({ overview }) {
  const { totals, money } = overview;
  const saved = totals.tokens_before - totals.tokens_after;
  const balance = net(money);
  const errors = totals.errors;
  return html`
    <section aria-label="Since the start">
      <dl class="cards">
        ${balance === null
          ? html`<${Card} name="Tokens saved" value=${short(saved)} note=${'cost unknown: ' + PRICE_HINT} />`
          : html`<${Card} name="Net savings" value=${usd(balance)} note=${'spent ' + usd(money.reported + money.listed) + (money.reported > 0 && money.listed > 0 ? '' : money.listed > 0 ? ' (list price)' : ' (reported)')} />`}
        <${Card} name="Tokens" value=${short(totals.tokens_before) + ' → ' + short(totals.tokens_after)} note=${percent(saved, totals.tokens_before) + ' saved'} />
        <${Card} name="Overflows mended" value=${whole(totals.mended)} note=${'gave up ' + whole(totals.gave_up)} />
        <${Card} name="Errors" value=${whole(errors)} isBad=${errors > 0} note=${'of ' + plural(totals.requests, 'request') + (totals.faults > 0 ? ', ' + whole(totals.faults) + ' from longhaul itself' : '')} />
        <${Quota} accounts=${overview.quota} />
      </dl>
      <details class="more-numbers"><summary>More</summary>
        <${MoneyTable} money=${asConversation(money)} prompt=${totals} rereads=${totals.rereads} lost=${totals.lost_reasoning} />
        <p class="dim">${plural(totals.chats, 'chat')} read, ${plural(totals.summaries, 'summary', 'summaries')} made${totals.summaries_failed > 0 ? ', ' + whole(totals.summaries_failed) + ' failed' : ''}, ${plural(totals.retries, 'request')} sent again, ${whole(totals.in_flight)} in progress.</p>
        <p class="links"><a href="#/costs">Costs by day</a> <a href="/export.json" download="longhaul.json">Export JSON</a> <a href="/export.csv" download="longhaul.csv">Export CSV</a> <a href="/config">Settings</a> <a href="/metrics">Metrics</a> <a href="/web/vendor/LICENSES.txt">Licences</a></p>
      </details>
    </section>`;
}

// Problems of the process; nothing while all is well.
export function Problems({ overview }) {
  const { store, summaries: of } = overview;
  const missed = store.failed + store.late + store.dropped;
  const told = [
    [store.state === 'away', `Store unreachable: using memory (${plural(missed, 'failed call')})`],
    [of.failing > 0, `Summaries paused for ${plural(of.failing, 'conversation')} after failures`],
    [of.paused > 0, `Summaries throttled for ${plural(of.paused, 'caller')}`],
    [of.spent, 'Hourly limit of summaries reached'],
    [of.spent_callers > 0, `Hourly limit of summaries reached for ${plural(of.spent_callers, 'caller')}`],
    [of.unused > 0, `Background summaries paused for ${plural(of.unused, 'conversation')} (recent ones were not used)`],
    [of.unused_callers > 0, `Background summaries paused for ${plural(of.unused_callers, 'caller')} (recent ones were not used)`],
  ].filter(([is]) => is);
  return told.length > 0 && html`<ul class="problems" role="status">${told.map(([, words]) => html`<li key=${words}>${words}</li>`)}</ul>`;
}

export function Costs() {
  useEffect(() => { loadDays(); document.title = 'Costs by day – longhaul'; return () => { document.title = 'longhaul'; }; }, []);
  const rows = state.days;
  return html`
    <article><a class="back" href="#/">← All conversations</a>
      <h2 id="title" tabindex="-1">Costs by day and model</h2>
      <p class="dim">Days are in UTC. Unknown costs are not included: ${PRICE_HINT}.</p>
      ${rows === null ? html`<p aria-busy="true">Loading …</p>` : rows.length === 0 ? html`<p class="dim">No request yet.</p>` : html`
      <div class="scroll" tabindex="0" role="group" aria-label="Costs by day and model"><table><caption class="sr">Costs by day and model</caption>
        <thead><tr><th scope="col">Day</th><th scope="col">Model</th>${['Requests', 'Errors', 'Received', 'Forwarded', 'Cache', 'Cost', 'Saved'].map((name) => html`<th scope="col" class="n" key=${name}>${name}</th>`)}</tr></thead>
        <tbody>${rows.map((row) => html`<tr key=${row.day + row.model}><th scope="row">${day(row.day)}</th><td>${row.model}</td><td class="n">${whole(row.requests)}</td>
          <td class=${'n' + (row.errors ? ' bad' : '')}>${whole(row.errors)}</td><td class="n">${short(row.tokens_before)}</td><td class="n">${short(row.tokens_after)}</td>
          <td class="n">${percent(row.cached_tokens, row.prompt_tokens)}</td><td class="n">${row.cost === 0 && row.unknown > 0 ? 'unknown' : usd(row.cost)}</td><td class="n">${row.saved === 0 && row.cost === 0 ? '–' : usd(row.saved)}</td></tr>`)}</tbody></table></div>`}
    </article>`;
}
