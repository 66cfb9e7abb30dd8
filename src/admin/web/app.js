// The page: headline, list of conversations, and the chosen one.

import { html, render, useEffect, useMemo, useRef, useState } from '/web/vendor/preact.js';
import { Conversation } from '/web/conversation.js';
import { Costs, Headline, Problems } from '/web/overview.js';
import { connect, useData, useRoute } from '/web/state.js';
import { ago, net, percent, plural, short, usd, whole } from '/web/format.js';

const SORTS = {
  last: ['last used', (one) => one.last],
  saved: ['tokens saved', (one) => one.tokens_before - one.tokens_after],
  net: ['net savings', (one) => net(one.money) ?? -Infinity],
  cost: ['cost', (one) => one.money.cost],
  errors: ['errors', (one) => one.errors],
};
const GROUPS = { none: 'no groups', model: 'model', agent: 'agent', caller: 'caller' };
const SHOWN = 100;

function Row({ one, isChosen, now }) {
  const saved = one.tokens_before - one.tokens_after;
  return html`
    <li><a class="row" href=${'#/c/' + one.id} aria-current=${isChosen ? 'true' : null}>
      <span class="title">${one.title || 'Untitled conversation'}</span>
      <span class="dim">${[one.agent, one.model].filter(Boolean).join(' · ')}</span>
      <span class="dim numbers">${saved > 0 ? '−' + percent(saved, one.tokens_before) + ' ' : ''}${short(one.tokens_after)} tokens${one.money.cost > 0 ? ' · ' + usd(one.money.cost) : ''} · ${ago(one.last, now)}
        ${one.errors > 0 && html` · <b class="bad">${plural(one.errors, 'error')}</b>`}${one.compacting !== null && html` · <b class="record">summary</b>`}</span>
    </a></li>`;
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
        ${models.length > 1 && pick('Model', model, setModel, [['', 'all'], ...models.map((name) => [name, name])])}
        ${pick('Sort', sort, setSort, Object.entries(SORTS).map(([id, [name]]) => [id, name]))}
        ${pick('Group', group, setGroup, Object.entries(GROUPS))}
        <label><input type="checkbox" checked=${isErrors} onChange=${(event) => setErrors(event.target.checked)} /> errors only</label>
      </form>
      <p class="dim count" role="status">${wanted.length === all.length ? plural(all.length, 'conversation') : whole(wanted.length) + ' of ' + plural(all.length, 'conversation')}${gone > 0 && `; ${whole(gone)} older ones are not kept`}</p>
      ${[...groups].map(([name, members]) => html`<section key=${name} aria-label=${name || null}>
        ${name && html`<h2 class="group">${name} <span class="dim">${plural(members.length, 'conversation')} · ${short(members.reduce((sum, one) => sum + one.tokens_before - one.tokens_after, 0))} saved · ${usd(members.reduce((sum, one) => sum + one.money.cost, 0))}</span></h2>`}
        <ul>${members.map((one) => html`<${Row} key=${one.id} one=${one} isChosen=${one.id === at.id} now=${now} />`)}</ul></section>`)}
      ${wanted.length > most && html`<button type="button" class="more" onClick=${() => setMost(most + SHOWN)}>Show ${Math.min(SHOWN, wanted.length - most)} more</button>`}
    </nav>`;
}

function Empty({ url }) {
  const [isCopied, copied] = useState(false);
  const copy = () => navigator.clipboard.writeText('export OPENAI_BASE_URL=' + url).then(() => copied(true), () => {});
  return html`<section class="empty"><h2>No conversation yet</h2>
    <p>Point an agent at longhaul:</p>
    <p><code>export OPENAI_BASE_URL=${url}</code> <button type="button" onClick=${copy}>${isCopied ? 'Copied' : 'Copy'}</button></p>
    <p>Or start the agent with its own proxy: <code>longhaul run -- aider</code></p>
    <p>Or watch longhaul work, without a key: <code>longhaul demo</code></p></section>`;
}

const LINK = { live: 'live', connecting: 'connecting …', reconnecting: 'no answer, connecting again …', closed: 'no answer: longhaul has stopped, or too many viewers' };

function App() {
  const data = useData();
  const at = useRoute();
  const [now, tick] = useState(Date.now());
  const main = useRef(null);
  useEffect(() => { const timer = setInterval(() => tick(Date.now()), 5000); return () => clearInterval(timer); }, []);
  const ids = [...data.conversations.keys()];
  const found = at.id && (data.conversations.get(at.id) ?? data.conversations.get(ids.find((id) => id.startsWith(at.id))));
  const isDetail = Boolean(at.id || at.costs);
  const previous = useRef(at.id);
  useEffect(() => {
    if (previous.current !== at.id && isDetail) { main.current?.scrollTo(0, 0); document.getElementById('title')?.focus({ preventScroll: true }); }
    previous.current = at.id;
  }, [at.id, at.costs]);
  const is = data.link === 'live';
  return html`
    <header><h1><a href="#/">longhaul</a></h1>
      <p class=${is ? 'good' : 'bad'} role="status"><span aria-hidden="true">${is ? '●' : '○'}</span> ${LINK[data.link]}</p>
      ${data.overview && html`<${Problems} overview=${data.overview} />`}</header>
    ${data.overview && html`<div class=${isDetail ? 'detailed' : ''}>
      <${Headline} overview=${data.overview} />
      ${data.conversations.size === 0 ? html`<main><${at.costs ? Costs : Empty} url=${data.overview.agent_url} /></main>` : html`
        <div class="both">
          <${List} data=${data} at=${{ id: found?.id ?? null }} now=${now} />
          <main ref=${main} tabindex="-1" aria-label="Details">
            ${at.costs ? html`<${Costs} />` : found ? html`<${Conversation} key=${found.id} one=${found} request=${at.request} now=${now} />`
              : at.id ? html`<article><a class="back" href="#/">← All conversations</a><p>This conversation is not kept any more, or its address is wrong.</p></article>`
              : html`<p class="dim hint">Choose a conversation to see what was done to its requests, and why.</p>`}
          </main>
        </div>`}
    </div>`}`;
}

render(html`<${App} />`, document.getElementById('app'));
connect();
