// Numbers, amounts, times and words for people.

export const short = (number) => number >= 999500 ? (number / 1e6).toFixed(2) + 'M'
  : number >= 99950 ? Math.round(number / 1e3) + 'k'
  : number >= 1000 ? (number / 1e3).toFixed(1) + 'k' : String(number);
// The same without zeros behind the point, for axes.
export const round = (number) => short(number).replace(/\.0+(?=\D)/, '');
export const whole = (number) => number.toLocaleString('en');
export const percent = (part, all) => all > 0 ? Math.round(100 * part / all) + '%' : '–';
export const plural = (number, one, many = one + 's') => whole(number) + ' ' + (number === 1 ? one : many);

export function took(milliseconds) {
  return milliseconds < 10000 ? milliseconds + ' ms' : (milliseconds / 1000).toFixed(1) + ' s';
}

// A length of time in one unit.
export function lasting(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  return seconds < 60 ? seconds + ' s' : seconds < 3600 ? Math.round(seconds / 60) + ' min'
    : seconds < 172800 ? Math.round(seconds / 3600) + ' h' : Math.round(seconds / 86400) + ' days';
}
export const ago = (at, now) => lasting(now - at) + ' ago';

// The length of a window of minutes, as people call it.
export const length = (minutes) => minutes % 1440 === 0 ? minutes / 1440 + ' d' : minutes % 60 === 0 ? minutes / 60 + ' h' : minutes + ' min';

export const clock = (at) => new Date(at).toLocaleTimeString('en-GB');
export const minute = (at) => clock(at).slice(0, 5);
export const moment = (at) => new Date(at).toLocaleString('sv-SE');
const isSameDay = (one, other) => new Date(one).toDateString() === new Date(other).toDateString();

// A time without the day if it is today, and without seconds.
export const when = (at, now) => isSameDay(at, now) ? minute(at) : moment(at).slice(0, 16);
export const day = (number) => new Date(number * 86400000).toISOString().slice(0, 10);

const FAULTS = {
  upstream_unreachable: 'upstream unreachable', upstream_unresolved: 'upstream not found', upstream_tls: 'no TLS with the upstream',
  upstream_timeout: 'no answer from the upstream', upstream_broke: 'the upstream broke off', upstream_malformed: 'answer without a clear end',
  upstream_proxy: 'forward proxy refused',
};

// The failure of a request in words, or null: who failed, with status, class and code.
export function failure(point) {
  if (point.fault) return FAULTS[point.fault] ?? 'refused by longhaul: ' + point.fault;
  if (!point.is_error) return null;
  if (point.status === null) return 'no answer';
  if (point.status < 400) return 'the reply broke off';
  return ['provider error', point.status, point.error].filter(Boolean).join(' ');
}

// Marks of events: action, symbol, words, class. A model writes summaries, fixed rules write digests.
const MARKS = [
  ['gave-up', '✕', 'gave up', 'bad'],
  ['original', '↺', 'original sent', 'warn'],
  ['retry', '↻', 'sent again', 'warn'],
  ['smaller-output', '↓', 'output lowered', 'warn'],
  ['fewer-bytes', '▧', 'images left out', 'warn'],
  ['summary', '◆', 'a summary replaces history', 'record'],
  ['digest', '◆', 'a digest replaces history', 'record'],
  ['clip', '✂', 'result clipped', 'record'],
  ['prune', '▲', 'results cleared', 'clear'],
  ['without-thinking', '◌', 'thinking left out', 'clear'],
];
// Actions that concern one request only. The others stand in all later requests.
const SINGLE = ['gave-up', 'original', 'retry', 'smaller-output'];

// What is new in a request: marks of MARKS.
function news(point) {
  return MARKS.filter(([act]) => point.acts.includes(act) && (SINGLE.includes(act) || point.rewritten && (act === 'prune' ? point.newly_cleared > 0
    : act !== 'summary' && act !== 'digest' || point.newly_cleared === 0)));
}

// The principal event of a request: [symbol, words, class], or null if there was none.
export function mark(point) {
  if (point.is_error) return ['✕', 'failed', 'bad'];
  const found = news(point)[0];
  return found ? found.slice(1) : null;
}

// What happened to a request, in words.
export function done(point) {
  const failed = failure(point);
  const parts = failed && point.refused === null ? [failed] : [];
  if (point.refused !== null) parts.push('refused at ' + short(point.refused) + (point.refused_limit ? ' (limit ' + whole(point.refused_limit) + ')' : ''));
  for (const [act, , words] of news(point)) parts.push(act === 'prune' ? plural(point.newly_cleared, 'result') + ' cleared' : words);
  if (parts.length > 0) return parts.join(', ') + (point.shadow === null ? '' : ' (in shadow)');
  if (point.changed_at > 0) return (point.shadow === null ? 'cut as at request ' : 'would be cut as at request ') + point.changed_at;
  return 'unchanged';
}

// The sizes of a request in words.
export function sizes(point) {
  if (!point.went_on) return short(point.before) + ' → nothing';
  if (point.shadow !== null && point.shadow !== point.before) return short(point.before) + ' ⇢ ' + short(point.shadow);
  return point.before === point.after ? short(point.before) : short(point.before) + ' → ' + short(point.after);
}

// Minutes after which providers drop a cached prompt that nobody reads.
const CACHE_MINUTES = 5;

// Tokens that the provider had to read again, though the request before had them, with the cause. Null if
// there are too few to matter, or nobody counted.
export function miss(point, before) {
  if (!before || point.cached_tokens === null || !before.prompt_tokens) return null;
  const tokens = Math.min(before.prompt_tokens, point.prompt_tokens) - point.cached_tokens;
  if (tokens < Math.max(2048, before.prompt_tokens / 10)) return null;
  const idle = point.at - point.duration_ms - before.at;
  const cause = point.rewritten && point.shadow === null ? 'our edit'
    : idle > CACHE_MINUTES * 60000 ? 'time: ' + lasting(idle) + ' without a request'
    : point.before < before.before ? 'the client’s edit of its history' : 'the provider, or the client’s edit';
  return { tokens, cause };
}
