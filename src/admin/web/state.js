// The data of the page: the list by server-sent events, everything else on demand.

import { useEffect, useState } from '/web/vendor/preact.js';

const listeners = new Set();
// `base` is the path of a longhaul of this user: empty for the one that serves the page, else `/at/PROCESS`.
export const state = {
  link: 'connecting', overview: null, conversations: new Map(), feed: [], details: new Map(), explanations: new Map(), days: null, config: null,
  peers: new Map(),
};
const MAX_FEED = 60;
const RECONNECT_MILLIS = 2000;

// The token of the link stays in this tab, and never in the address.
const linked = /^#token=(\w+)/.exec(location.hash);
if (linked) {
  sessionStorage.setItem('token', linked[1]);
  history.replaceState(null, '', '/');
}

export function changed() {
  for (const listener of listeners) listener();
}

// Renders the component again after every change of the data.
export function useData() {
  const [, render] = useState(0);
  useEffect(() => {
    const listener = () => render((count) => count + 1);
    listeners.add(listener);
    // Data may have come before this effect.
    listener();
    return () => listeners.delete(listener);
  }, []);
  return state;
}

function get(path, options = {}, headers = {}) {
  return fetch(path, { cache: 'no-store', ...options, headers: { ...headers, 'x-longhaul-token': sessionStorage.getItem('token') ?? '' } });
}

async function ask(path) {
  const answer = await get(path);
  if (!answer.ok) throw new Error(answer.status + ' for ' + path);
  return answer.json();
}

// Gives a command to a longhaul. Throws its reason if it does not obey.
export async function command(base, order) {
  const answer = await get(base + '/commands', { method: 'POST', body: JSON.stringify(order) }, { 'content-type': 'application/json' });
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error ?? answer.status);
}

const keyOf = (base, id) => base ? base.slice(4) + '-' + id : id;

function forget(base) {
  state.peers.delete(base);
  for (const [key, one] of state.conversations) if (one.base === base) state.conversations.delete(key);
  state.feed = state.feed.filter((row) => row.base !== base);
}

function take(change, isWhole, base) {
  if (isWhole) forget(base);
  // A conversation that was evicted and has returned is in both lists.
  for (const id of change.evicted) { state.conversations.delete(keyOf(base, id)); state.details.delete(keyOf(base, id)); }
  for (const one of change.conversations) state.conversations.set(keyOf(base, one.id), { ...one, money: one, base, key: keyOf(base, one.id) });
  const rows = change.feed.map((row) => ({ ...row, base, conversation: keyOf(base, row.conversation) }));
  state.feed = rows.concat(state.feed).sort((one, other) => other.at - one.at).slice(0, MAX_FEED);
  state.peers.set(base, change);
  if (isWhole) for (const details of state.details.values()) if (details.base === base) details.isStale = true;
  if (base === '') {
    state.overview = change;
    state.link = 'live';
    for (const peer of change.peers) connect('/at/' + peer);
  }
  changed();
  loadTotals();
}

const links = new Set();

// Follows the changes of a longhaul until its stream ends, and connects again.
export async function connect(base) {
  if (links.has(base)) return;
  links.add(base);
  let status = 0;
  try {
    const answer = await get(base + '/events');
    status = answer.status;
    if (answer.ok) await follow(answer.body.pipeThrough(new TextDecoderStream()).getReader(), base);
  } catch { /* The longhaul has ended. */ }
  links.delete(base);
  if (base !== '' && status !== 200) { forget(base); changed(); return; }
  if (base === '') state.link = status === 403 ? 'locked' : status === 0 || status === 200 ? 'reconnecting' : 'closed';
  changed();
  setTimeout(() => connect(base), status === 200 || status === 0 ? RECONNECT_MILLIS : 2 * RECONNECT_MILLIS);
}

async function follow(reader, base) {
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const event = text.slice(0, end);
      text = text.slice(end + 2);
      const data = /^data: (.*)$/m.exec(event);
      if (data) take(JSON.parse(data[1]), /^event: all$/m.test(event), base);
    }
  }
}

// Fetches the requests of a conversation that are not here yet.
export async function loadDetails({ key, id, base }) {
  const known = state.details.get(key);
  if (known && known.isLoading) { known.isBehind = true; return; }
  const entry = known && !known.isStale ? known : { points: [], summary: null, base };
  entry.isLoading = true; entry.isStale = false;
  state.details.set(key, entry);
  try {
    const after = entry.points.length ? entry.points.at(-1).number : 0;
    const fresh = await ask(base + '/conversations/' + id + '?after=' + after);
    const points = fresh.points[0] && fresh.points[0].number !== after + 1 ? [] : entry.points;
    state.details.set(key, { ...entry, points: points.concat(fresh.points).slice(-400), isLoaded: true,
      summary: fresh.summary ?? null, kept: fresh.kept, error: null, isLoading: false });
  } catch (error) {
    state.details.set(key, { ...entry, error: error.message, isLoading: false });
  }
  changed();
  if (entry.isBehind) { state.details.get(key).isBehind = false; await loadDetails({ key, id, base }); }
}

const MAX_EXPLANATIONS = 100;

export async function loadExplanation(id, base) {
  if (state.explanations.has(id)) return;
  if (state.explanations.size >= MAX_EXPLANATIONS) state.explanations.delete(state.explanations.keys().next().value);
  state.explanations.set(id, { isLoading: true });
  try {
    state.explanations.set(id, { explanation: await ask(base + '/requests/' + id) });
  } catch (error) {
    state.explanations.set(id, { error: error.message });
  }
  changed();
}

// Least time between two requests for the totals.
const TOTALS_INTERVAL = 2000;
let isDue = false;

// Fetches totals and settings, soon after a change.
function loadTotals() {
  if (isDue) return;
  isDue = true;
  const load = async () => {
    isDue = false;
    const days = [...state.peers.keys()].map((base) => ask(base + '/days' + (base ? '?beside' : '')).catch(() => []));
    try {
      state.config = await ask('/config');
      state.days = (await Promise.all(days)).flat();
    } catch { return; }
    changed();
  };
  if (state.days === null) load(); else setTimeout(load, TOTALS_INTERVAL);
}

export const setting = (key) => state.config?.find((one) => one.key === key)?.value;

// Counters of the process, by name, from the page for Prometheus.
export async function loadCounters() {
  const answer = await get('/metrics');
  const counters = {};
  for (const line of (await answer.text()).split('\n')) {
    const found = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (found) (counters[found[1]] ??= []).push([found[2] ?? '', Number(found[3])]);
  }
  state.counters = counters;
  changed();
}

// Quotes a text that a client chose. A leading apostrophe keeps spreadsheets from running it as a formula.
const quoted = (text) => '"' + (/^[=+\-@\t\r]/.test(text) ? "'" : '') + String(text).replaceAll('"', '""') + '"';

// The list prices of a model in dollars for a million tokens, if any: input, and cached input.
export async function proposePrice(model) {
  try {
    return (await ask('/prices/' + encodeURIComponent(model)))?.map((nanos) => nanos === null ? null : nanos / 1e9);
  } catch { return null; }
}

// Saves requests as a file: of one conversation, or of all.
export async function save(one, kind) {
  const id = one?.id;
  const all = one ? [await ask(one.base + '/conversations/' + id)] : (await Promise.all([...state.peers.keys()].map((base) => ask(base + '/export.json')))).flat();
  const names = ['id', 'number', 'at', 'duration_ms', 'status', 'fault', 'error', 'acts', 'cleared', 'before', 'after', 'shadow', 'refused',
    'refused_limit', 'prompt_tokens', 'cached_tokens', 'cost'];
  const lines = all.flatMap((one) => one.points.map((point) =>
    [one.id, one.title, one.model, one.agent, one.caller, ...names.map((name) => point[name] ?? '')].map(quoted).join(',')));
  const text = kind === 'json' ? JSON.stringify(id ? all[0] : all) : [['conversation', 'title', 'model', 'agent', 'caller', ...names].join(','), ...lines, ''].join('\r\n');
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: kind === 'json' ? 'application/json' : 'text/csv' }));
  link.download = 'longhaul' + (id ? '-' + id : '') + '.' + kind;
  link.click();
  URL.revokeObjectURL(link.href);
}

// The address of the page: #/ for the first screen, #/c/ID for a conversation, #/c/ID/r/ID for one request of
// it, #/costs for the costs by day, #/settings for the settings.
export function route() {
  const [page, id, kind, request] = location.hash.replace(/^#\/?/, '').split('/');
  return { page: ['costs', 'settings'].includes(page) ? page : null, id: page === 'c' ? id || null : null, request: kind === 'r' ? request || null : null };
}

export function useRoute() {
  const [at, go] = useState(route());
  useEffect(() => {
    const follow = () => go(route());
    addEventListener('hashchange', follow);
    return () => removeEventListener('hashchange', follow);
  }, []);
  return at;
}
