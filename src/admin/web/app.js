// The page: headline, list of conversations, and the overview or the chosen conversation.

import { html, render, useEffect, useMemo, useRef, useState } from '/web/vendor/preact.js';
import { Conversation } from '/web/conversation.js';
import { isPriced, net, sum, usd } from '/web/money.js';
import { Costs, Facts, Headline, More, Overview, Problems, Settings } from '/web/overview.js';
import { connect, setting, useData, useRoute } from '/web/state.js';
import { ago, moment, percent, plural, short, whole } from '/web/format.js';

const left = (one) => one.tokens_before - one.tokens_after + one.shadow_saved;
const SORTS = {
  last: ['last used', (one) => one.last],
  saved: ['tokens saved', left],
  net: ['net savings', (one) => net(one.money) ?? -Infinity],
  cost: ['cost', (one) => one.money.cost],
  errors: ['errors', (one) => one.errors],
};
const GROUPS = { none: 'no groups', model: 'model', agent: 'agent', caller: 'caller' };
const SHOWN = 100;

function Row({ one, isChosen, now }) {
  const saved = left(one);
  const share = one.window > 0 ? Math.min(1, one.newest_after / one.window) : 0;
  return html`
    <li><a class="row" href=${'#/c/' + one.key} aria-current=${isChosen ? 'true' : null}>
      <span class="title">${one.title || 'Conversation of ' + moment(one.last).slice(0, 16)}</span>
      <span class="dim">${[one.agent, one.model].filter(Boolean).join(' · ')}</span>
      <span class="filled"><span class="fill" aria-hidden="true"><i class=${share > 0.9 ? 'full' : ''} style=${{ width: 100 * share + '%' }}></i></span> <span class="dim">${percent(share, 1)} of the window</span></span>
      <span class="dim numbers">${saved > 0 ? (one.shadow_saved > 0 ? 'would save ' : '−') + percent(saved, one.tokens_before) + ', ' : ''}${short(one.tokens_after)} forwarded${one.money.cost > 0 ? ' · ' + usd(one.money.cost) + (isPriced(one.money) ? '' : ' +') : ''} · ${ago(one.last, now)}
        ${one.errors > 0 && html` · <b class="bad">${plural(one.errors, 'error')}</b>`}${one.compacting !== null && html` · <b class="record">summary</b>`}</span>
    </a></li>`;
}

function groupWords(members) {
  const money = sum(members.map((one) => one.money));
  return `${plural(members.length, 'conversation')} · ${short(members.reduce((all, one) => all + left(one), 0))} saved · ${money.known > 0 ? usd(money.cost) + (isPriced(money) ? '' : ' +') : 'cost unknown'}`;
}

function List({ data, at, now }) {
  const [text, search] = useState('');
  const [model, setModel] = useState('');
  const [sort, setSort] = useState('last');
  const [group, setGroup] = useState('none');
  const [isErrors, setErrors] = useState(false);
  const [most, setMost] = useState(SHOWN);
  const all = [...data.conversations.values()];
  const models = useMemo(() => [...new Set(all.map((one) => one.model))].sort(), [all.map((one) => one.model).join('\n')]);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const isWanted = (one) => (!model || one.model === model) && (!isErrors || one.errors > 0)
    && words.every((word) => [one.title, one.body, one.model, one.agent, one.caller, one.id].some((field) => field.toLowerCase().includes(word)));
  const key = SORTS[sort][1];
  const wanted = all.filter(isWanted).sort((one, other) => key(other) - key(one) || other.last - one.last);
  const groups = new Map();
  for (const one of wanted.slice(0, most)) {
    const name = group === 'none' ? '' : one[group] || 'unknown';
    groups.set(name, [...(groups.get(name) ?? []), one]);
  }
  const gone = data.overview.evicted_count;
  const pick = (name, value, set, options) => html`<label>${name} <select value=${value} onChange=${(event) => set(event.target.value)}>
    ${options.map(([id, label]) => html`<option key=${id} value=${id} selected=${id === value}>${label}</option>`)}</select></label>`;
  return html`
    <nav class="list" aria-label="Conversations">
      <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
        <label class="search"><span class="sr">Search conversations</span><input type="search" placeholder="Search" value=${text} onInput=${(event) => search(event.target.value)} /></label>
        ${all.length > 1 && html`
          ${models.length > 1 && pick('Model', model, setModel, [['', 'all'], ...models.map((name) => [name, name])])}
          <label><input type="checkbox" checked=${isErrors} onChange=${(event) => setErrors(event.target.checked)} /> errors only</label>
          ${pick('Sort', sort, setSort, Object.entries(SORTS).map(([id, [name]]) => [id, name]))}
          ${pick('Group', group, setGroup, Object.entries(GROUPS))}`}
      </form>
      <p class="dim count" role="status">${wanted.length === all.length ? plural(all.length, 'conversation') : whole(wanted.length) + ' of ' + plural(all.length, 'conversation')}${gone > 0 && `; ${whole(gone)} older ones are not kept`}</p>
      ${[...groups].map(([name, members]) => html`<section key=${name} aria-label=${name || null}>
        ${name && html`<h2 class="group">${name} <span class="dim">${groupWords(members)}</span></h2>`}
        <ul>${members.map((one) => html`<${Row} key=${one.key} one=${one} isChosen=${one.key === at.id} now=${now} />`)}</ul></section>`)}
      ${wanted.length > most && html`<button type="button" class="more" onClick=${() => setMost(most + SHOWN)}>Show ${Math.min(SHOWN, wanted.length - most)} more</button>`}
    </nav>`;
}

function Copy({ text }) {
  const [isCopied, copied] = useState(false);
  const copy = () => navigator.clipboard.writeText(text).then(() => copied(true), () => {});
  return html`<p class="copy"><code>${text}</code> <button type="button" aria-label=${'Copy ' + text} onClick=${copy}>${isCopied ? 'Copied' : 'Copy'}</button></p>`;
}

function Empty({ url }) {
  const origin = url.replace(/\/v1$/, '');
  return html`<section class="empty">
    <h2>No conversation yet</h2>
    <p>Point an agent at this longhaul, and its requests appear here at once.</p>
    <div class="ways">
      <div><h3>OpenAI’s API</h3><${Copy} text=${'export OPENAI_BASE_URL=' + url} /></div>
      <div><h3>Anthropic’s API</h3><${Copy} text=${'export ANTHROPIC_BASE_URL=' + origin} /></div>
      <div><h3>Started by longhaul</h3><${Copy} text="longhaul run -- claude" /><${Copy} text="longhaul run -- codex" /></div>
      <div><h3>Lasting settings of an agent</h3><${Copy} text="longhaul connect codex" /></div>
      <div><h3>Without a key</h3><${Copy} text="longhaul demo --open" /></div>
    </div></section>`;
}

const LINK = { live: 'live', connecting: 'connecting …', reconnecting: 'no answer, connecting again …', closed: 'no answer: longhaul has stopped, or too many viewers', locked: 'this page needs its link' };

function App() {
  const data = useData();
  const at = useRoute();
  const [now, tick] = useState(Date.now());
  const main = useRef(null);
  useEffect(() => { const timer = setInterval(() => tick(Date.now()), 5000); return () => clearInterval(timer); }, []);
  const ids = [...data.conversations.keys()];
  const only = ids.length === 1 && !at.page ? ids[0] : null;
  const wanted = at.id ?? only;
  const found = wanted && (data.conversations.get(wanted) ?? data.conversations.get(ids.find((id) => id.startsWith(wanted))));
  const isDetail = Boolean(at.id || at.page);
  const previous = useRef(at.id);
  useEffect(() => {
    if (previous.current !== at.id && isDetail) { main.current?.scrollTo(0, 0); document.getElementById('title')?.focus({ preventScroll: true }); }
    previous.current = at.id;
  }, [at.id, at.page]);
  const is = data.link === 'live';
  const { overview } = data;
  const days = data.days ?? [];
  const page = at.page === 'costs' ? html`<${Costs} days=${days} />` : at.page === 'settings' ? html`<${Settings} config=${data.config} />` : null;
  return html`
    <header><h1><a href="#/">longhaul</a></h1>
      <p class=${is ? 'good' : 'bad'} role="status"><span aria-hidden="true">${is ? '●' : '○'}</span> ${LINK[data.link]}</p>
      ${overview && html`<${Facts} overview=${overview} now=${now} />`}</header>
    ${data.link === 'locked' && html`<main class="empty"><h2>This page needs its link</h2><p>Only the user who runs longhaul may read it. This prints the link:</p><${Copy} text="longhaul dashboard" /></main>`}
    ${overview && html`<div class=${isDetail ? 'detailed' : ''}>
      <${Problems} overview=${overview} now=${now} />
      ${(ids.length > 0 || days.length > 0) && html`<${Headline} overview=${overview} days=${days} now=${now} />`}
      ${ids.length === 0 ? html`<main>${page ?? html`${days.length > 0 && html`<${Overview} days=${days} now=${now} />`}<${Empty} url=${overview.agent_url} />`}</main>` : html`
        <div class="both">
          <${List} data=${data} at=${{ id: found?.key ?? null }} now=${now} />
          <main ref=${main} tabindex="-1" aria-label="Details">
            ${page ?? (found ? html`<${Conversation} key=${found.key} one=${found} request=${at.request} now=${now} isOnly=${ids.length === 1} />`
              : at.id ? html`<article><a class="back" href="#/">← Overview</a><p>This conversation is not kept any more, or its address is wrong.</p></article>`
              : html`<${Overview} days=${days} now=${now} />`)}
          </main>
        </div>`}
      <${More} />
    </div>`}`;
}

render(html`<${App} />`, document.getElementById('app'));
connect('');
