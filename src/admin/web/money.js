// Amounts of money, which are never shown where they are unknown.

import { html, useEffect, useState } from '/web/vendor/preact.js';
import { useCommand } from '/web/commands.js';
import { proposePrice } from '/web/state.js';
import { percent, plural, short, whole } from '/web/format.js';

// An amount in billionths of a dollar.
export function usd(nanos) {
  const dollars = Math.abs(nanos) / 1e9;
  const digits = dollars >= 0.095 || dollars === 0 ? 2 : Math.min(9, 1 - Math.floor(Math.log10(dollars)));
  return (nanos < 0 ? '−$' : '$') + dollars.toFixed(digits);
}

// The cost of the requests: what is known of it, for how many it is not, and whose number it is.
export function spent(money) {
  const all = money.known + money.unknown;
  if (all === 0) return 'nothing yet';
  const unknown = money.unknown > 0 ? `unknown for ${whole(money.unknown)} of ${plural(all, 'request')}` : null;
  if (money.known === 0) return unknown;
  const whose = money.reported === money.cost ? 'reported' : money.reported === 0 ? 'at list or set prices' : 'in part reported, in part at list or set prices';
  return `${usd(money.cost)} (${whose})` + (unknown ? ', ' + unknown : '');
}

// What longhaul saved, compared with the same requests sent whole. Null while that is unknown.
export function net(money) {
  const isUnknown = money.saved_unknown > 0 || money.calls_unknown > 0 || money.known === 0;
  return isUnknown ? null : money.saved - money.rewrites - money.summaries;
}

// What is known of the savings, and what is not.
export function saved(money) {
  const unknown = money.saved_unknown > 0 ? `unknown for ${short(money.saved_unknown)} removed tokens` : null;
  if (money.known === 0 || money.saved === 0 && unknown) return unknown ?? 'unknown';
  return usd(money.saved) + (unknown ? ', ' + unknown : '');
}

// What mode shadow would have saved, as far as prices are known. Null while that is unknown.
export function wouldSave(money) {
  const unknown = money.would_save_unknown > 0 ? `, unknown for ${short(money.would_save_unknown)} tokens` : '';
  return money.would_save > 0 ? `${usd(money.would_save)} at the price of cached input${unknown}` : null;
}

export const isPriced = (money) => money.unknown === 0 && money.saved_unknown === 0;

export function sum(rows) {
  const all = {};
  for (const row of rows) for (const [key, value] of Object.entries(row)) if (typeof value === 'number') all[key] = (all[key] ?? 0) + value;
  return all;
}

function PriceForm({ model, base, listed }) {
  const [give, isBusy, outcome] = useCommand();
  const set = (event) => {
    event.preventDefault();
    const price = Object.fromEntries([...new FormData(event.target)].map(([name, value]) => [name, value === '' ? null : Number(value)]));
    give(base, { command: 'set-price', model, ...price }, 'Set. It counts from the next reply on.');
  };
  const field = (name, label, value) => html`<label>${label} <input name=${name} type="number" min="0" step="any" required=${name === 'input'} defaultValue=${value ?? ''} /></label>`;
  return html`<form class="command price" onSubmit=${set}>
    <p class="hint">A price of <code>${model}</code> makes the cost known, in dollars for a million tokens${listed.length > 0 ? '. Proposed is the list price of the model’s maker: check whether your provider asks the same' : ''}.</p>
    ${field('input', 'Input', listed[0])} ${field('cached', 'Cached input', listed[1])} ${field('output', 'Output')}
    <button type="submit" disabled=${isBusy}>Set the price</button>${outcome}</form>`;
}

// How to make an unknown price known: the lines for the settings, with the prices of the list if it has the model.
export function PriceHint({ model, base, config, may }) {
  const [listed, propose] = useState(null);
  useEffect(() => { proposePrice(model).then(propose); }, [model]);
  if (config?.some(({ key, value }) => key.startsWith('price[') && value === model)) return null;
  if (may) return html`<${PriceForm} key=${listed} model=${model} base=${base} listed=${listed ?? []} />`;
  const lines = ['[[price]]', 'match = ' + JSON.stringify(model), 'input = ' + (listed?.[0] ?? '…'), 'cached = ' + (listed?.[1] ?? '…'), 'output = …'];
  return html`<p class="hint">A price makes the cost known: these lines in the settings, in dollars for a million tokens${listed ? ', with the list price of the model’s maker. Check whether your provider asks the same' : ''}.
    <code class="block">${lines.join('\n')}</code></p>`;
}

function misses(list) {
  if (list.length === 0) return 'none seen';
  const causes = new Map();
  for (const { tokens, cause } of list) {
    const kind = cause.split(':')[0];
    const [count, all] = causes.get(kind) ?? [0, 0];
    causes.set(kind, [count + 1, all + tokens]);
  }
  return [...causes].map(([kind, [count, tokens]]) => `${count} by ${kind} (${short(tokens)} tokens)`).join(', ');
}

export function MoneyTable({ one, list, config, may }) {
  const { money } = one;
  const isKnown = money.known > 0;
  const balance = net(money);
  const rows = [
    ['Spent', spent(money)],
    ['Saved, compared with whole requests', saved(money)],
    ...(one.shadow_saved > 0 ? [['Would have saved in mode on', wouldSave(money) ?? 'unknown']] : []),
    ['Read again after our edits', isKnown ? usd(money.rewrites) : 'unknown'],
    ['Summaries by a model', money.calls_unknown > 0 ? `${money.summaries > 0 ? usd(money.summaries) + ', ' : ''}unknown for ${plural(money.calls_unknown, 'call')}` : usd(money.summaries)],
    ['Net savings', balance === null ? 'unknown' : usd(balance)],
    ['Cache hit rate', one.prompt_tokens > 0 ? percent(one.cached_tokens, one.prompt_tokens) : 'unknown: the provider reports no token counts'],
    ['Cache misses', misses(list)],
    ['Read again by the agent after clearing', plural(one.rereads, 'result')],
    ['Reasoning lost to edits', plural(one.lost_reasoning, 'item') + (one.dropped_reasoning > 0 ? `; a reply reports ${whole(one.dropped_reasoning)} as dropped` : '')],
  ];
  return html`<table class="money"><caption class="sr">Money</caption><tbody>${rows.map(([name, value]) => html`<tr key=${name}><th scope="row">${name}</th><td>${value}</td></tr>`)}</tbody></table>
    ${money.unknown > 0 && html`<${PriceHint} model=${one.model} base=${one.base} config=${config} may=${may} />`}`;
}
