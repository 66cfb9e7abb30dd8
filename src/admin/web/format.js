// Numbers, amounts and times for people.

export const short = (number) => number >= 999500 ? (number / 1e6).toFixed(2) + 'M'
  : number >= 99950 ? Math.round(number / 1e3) + 'k'
  : number >= 1000 ? (number / 1e3).toFixed(1) + 'k' : String(number);
export const whole = (number) => number.toLocaleString('en');
export const percent = (part, all) => all > 0 ? Math.round(100 * part / all) + '%' : '–';
export const plural = (number, one, many = one + 's') => whole(number) + ' ' + (number === 1 ? one : many);

// Amounts are in billionths of a dollar. An unknown amount is never shown as a number.
export function usd(nanos) {
  const dollars = Math.abs(nanos) / 1e9;
  const digits = dollars >= 0.095 || dollars === 0 ? 2 : Math.min(9, 1 - Math.floor(Math.log10(dollars)));
  return (nanos < 0 ? '−$' : '$') + dollars.toFixed(digits);
}

export function took(milliseconds) {
  return milliseconds < 10000 ? milliseconds + ' ms' : (milliseconds / 1000).toFixed(1) + ' s';
}

export function ago(at, now) {
  const seconds = Math.max(0, Math.round((now - at) / 1000));
  return seconds < 60 ? seconds + ' s ago' : seconds < 3600 ? Math.round(seconds / 60) + ' min ago'
    : seconds < 172800 ? Math.round(seconds / 3600) + ' h ago' : Math.round(seconds / 86400) + ' days ago';
}

// The length of a window of minutes, as people call it.
export const length = (minutes) => minutes % 1440 === 0 ? minutes / 1440 + ' d' : minutes % 60 === 0 ? minutes / 60 + ' h' : minutes + ' min';

export const clock = (at) => new Date(at).toLocaleTimeString('en-GB');
export const moment = (at) => new Date(at).toLocaleString('sv-SE');

// A time to come: without the day if it is today, and without seconds.
export const until = (at, now) => new Date(at).toDateString() === new Date(now).toDateString() ? clock(at).slice(0, 5) : moment(at).slice(0, 16);
export const day = (number) => new Date(number * 86400000).toISOString().slice(0, 10);

// What would make an unknown price known.
export const PRICE_HINT = 'set a [[price]] for the model, or ask the provider to report costs';

// The net savings of `money`, or null while a part of it is unknown.
export function net(money) {
  const known = !(money.saved === 0 && money.saved_unknown > 0);
  return known && !(money.summaries === 0 && money.calls_unknown > 0) ? money.saved - money.rewrites - money.summaries : null;
}

const MARKS = [
  ['gave-up', '✕', 'gave up', 'bad'],
  ['original', '↺', 'original sent', 'warn'],
  ['retry', '↻', 'sent again', 'warn'],
  ['smaller-output', '↓', 'output lowered', 'warn'],
  ['fewer-bytes', '▧', 'images left out', 'warn'],
  ['summary', '◆', 'summary in use', 'record'],
  ['digest', '◆', 'digest in use', 'record'],
  ['clip', '✂', 'result clipped', 'record'],
  ['prune', '▲', 'results cleared', 'clear'],
  ['without-thinking', '◌', 'thinking left out', 'clear'],
  ['shadow', '◍', 'shadow: nothing changed', 'dim'],
];

// The principal action on a request: [symbol, words, class], or null if there was none.
export function mark(point) {
  if (point.is_error) return ['✕', 'failed', 'bad'];
  const found = MARKS.find(([act]) => point.acts.includes(act));
  return found ? found.slice(1) : null;
}

// What was done to a request, in words.
export function done(point) {
  if (point.fault) return 'failed: ' + point.fault;
  const parts = [];
  if (point.refused !== null) {
    parts.push('refused at ' + short(point.refused)
      + (point.refused_limit ? ' (limit ' + whole(point.refused_limit) + ')' : ''));
  }
  if (point.cleared > 0) parts.push(plural(point.cleared, 'result') + ' cleared');
  for (const [act, , words] of MARKS) {
    if (act !== 'prune' && point.acts.includes(act)) parts.push(words);
  }
  return parts.length ? parts.join(', ') : 'unchanged';
}
