// Tokens received and forwarded over time, by hour or by day.

import { html, useMemo, useRef } from '/web/vendor/preact.js';
import { axis, colour, usePlot } from '/web/chart.js';
import { day, minute, round, short } from '/web/format.js';
import { sum } from '/web/money.js';

const HOUR = 3600000;
const HOURS_SHOWN = [8, 24];
const DAYS_SHOWN = 30;

export const startOf = (row) => (row.day * 24 + row.hour) * HOUR;

// The spans to draw: [start, name, totals]. The hours of a day until there are two full days.
function spans(days, now) {
  const first = Math.min(...days.map(startOf));
  const isHours = now - first < 48 * HOUR;
  const unit = isHours ? HOUR : 24 * HOUR;
  const last = Math.floor(now / unit) * unit;
  const used = (last - Math.floor(first / unit) * unit) / unit + 1;
  const [least, most] = isHours ? HOURS_SHOWN : [3, DAYS_SHOWN];
  const count = Math.min(most, Math.max(least, used));
  return Array.from({ length: count }, (_, at) => {
    const start = last - (count - 1 - at) * unit;
    const rows = days.filter((row) => startOf(row) >= start && startOf(row) < start + unit && row.model !== '(earlier days)');
    return [start, unit === HOUR ? minute(start) : day(start / 24 / HOUR).slice(5), sum(rows)];
  });
}

export function Trend({ days, now }) {
  const place = useRef(null);
  const all = useMemo(() => spans(days, now), [days, Math.floor(now / HOUR)]);
  const isShadow = all.some(([, , totals]) => totals.shadow_saved > 0);
  // The last step needs an end.
  const steps = [...all, all.at(-1)].map(([, , totals]) => totals);
  const data = () => [steps.map((_, at) => at), steps.map((of) => of.tokens_before ?? 0), steps.map((of) => (of.tokens_after ?? 0) - (of.shadow_saved ?? 0))];
  const options = () => ({
    padding: [10, 12, 0, 0],
    cursor: { show: false },
    scales: { x: { time: false, range: [0, all.length] }, y: { range: (_, low, high) => [0, Math.max(1, high * 1.08)] } },
    axes: [
      { ...axis(), grid: { show: false }, size: 28, incrs: [1, 2, 3, 6, 12], space: 50, values: (_, ticks) => ticks.map((at) => all[at]?.[1] ?? '') },
      { ...axis(), size: 52, values: (_, ticks) => ticks.map(round) },
    ],
    bands: [{ series: [1, 2], fill: colour('saved') }],
    series: [{}, ...['sent', 'kept'].map((name, at) => ({ stroke: colour(name), width: 2, points: { show: false }, paths: window.uPlot.paths.stepped({ align: 1 }),
      fill: at === 1 ? colour('forwarded') : undefined, dash: isShadow && at === 1 ? [6, 4] : undefined }))],
  });
  usePlot(place, 170, options, data, [all]);
  const unit = all[1][0] - all[0][0] === HOUR ? 'hour' : 'day';
  const totals = sum(all.map(([, , of]) => of));
  return html`<figure class="chart trend">
    <h2>Tokens by ${unit}</h2>
    <div class="plot" ref=${place} role="img" aria-label=${`Tokens by ${unit}: ${short(totals.tokens_before ?? 0)} received, ${short((totals.tokens_after ?? 0) - (totals.shadow_saved ?? 0))} ${isShadow ? 'would be ' : ''}forwarded. “Costs by day” has the values.`}></div>
    <ul class="legend"><li><i class="line sent"></i>received</li><li><i class=${'line kept' + (isShadow ? ' dashed' : '')}></i>${isShadow ? 'would forward' : 'forwarded'}</li><li><i class="area"></i>${isShadow ? 'would be saved' : 'saved'}</li></ul>
  </figure>`;
}
