// The data of the page: the list by server-sent events, details and explanations on demand.

import { useEffect, useState } from '/web/vendor/preact.js';

const listeners = new Set();
export const state = {
  link: 'connecting', overview: null, conversations: new Map(), details: new Map(), explanations: new Map(), days: null,
};

function changed() {
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

function take(change, isWhole) {
  if (isWhole) { state.conversations.clear(); }
  // A conversation that was evicted and has returned is in both lists.
  for (const id of change.evicted) { state.conversations.delete(id); state.details.delete(id); }
  for (const one of change.conversations) state.conversations.set(one.id, one);
  state.overview = change;
  state.link = 'live';
  if (isWhole) for (const id of state.details.keys()) state.details.get(id).isStale = true;
  changed();
}

export function connect() {
  const events = new EventSource('/events');
  events.addEventListener('all', (event) => take(JSON.parse(event.data), true));
  events.onmessage = (event) => take(JSON.parse(event.data), false);
  events.onerror = () => {
    state.link = events.readyState === EventSource.CLOSED ? 'closed' : 'reconnecting';
    changed();
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, 5000);
  };
}

async function ask(path) {
  const answer = await fetch(path, { cache: 'no-store' });
  if (!answer.ok) throw new Error(answer.status + ' for ' + path);
  return answer.json();
}

// Fetches the requests of a conversation that are not here yet.
export async function loadDetails(id) {
  const known = state.details.get(id);
  if (known && known.isLoading) { known.isBehind = true; return; }
  const entry = known && !known.isStale ? known : { points: [], summary: null };
  entry.isLoading = true; entry.isStale = false;
  state.details.set(id, entry);
  try {
    const after = entry.points.length ? entry.points.at(-1).number : 0;
    const fresh = await ask('/conversations/' + id + '?after=' + after);
    const points = fresh.points[0] && fresh.points[0].number !== after + 1 ? [] : entry.points;
    state.details.set(id, { ...entry, points: points.concat(fresh.points).slice(-400),
      summary: fresh.summary ?? null, error: null, isLoading: false });
  } catch (error) {
    state.details.set(id, { ...entry, error: error.message, isLoading: false });
  }
  changed();
  if (entry.isBehind) { state.details.get(id).isBehind = false; await loadDetails(id); }
}

const MAX_EXPLANATIONS = 100;

export async function loadExplanation(id) {
  if (state.explanations.has(id)) return;
  if (state.explanations.size >= MAX_EXPLANATIONS) state.explanations.delete(state.explanations.keys().next().value);
  state.explanations.set(id, { isLoading: true });
  try {
    state.explanations.set(id, { explanation: await ask('/requests/' + id) });
  } catch (error) {
    state.explanations.set(id, { error: error.message });
  }
  changed();
}

export async function loadDays() {
  try { state.days = await ask('/days'); } catch { state.days = []; }
  changed();
}

// The address of the page: #/ for the list, #/c/ID for a conversation, #/c/ID/r/ID for one request of
// it, #/costs for the costs by day.
export function route() {
  const parts = location.hash.replace(/^#\/?/, '').split('/');
  if (parts[0] === 'costs') return { costs: true, id: null, request: null };
  return { costs: false, id: parts[0] === 'c' ? parts[1] || null : null, request: parts[2] === 'r' ? parts[3] || null : null };
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
