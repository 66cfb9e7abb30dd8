// The chart of a conversation: tokens by request, with a crosshair that the keyboard moves too.

import { html, useEffect, useRef, useState } from '/web/vendor/preact.js';
import { done, mark, minute, percent, round, whole } from '/web/format.js';

const { uPlot } = window;
const HEIGHT = 260;
const FONT = '12px system-ui, sans-serif';
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
export const axis = () => ({ stroke: colour('dim'), grid: { stroke: colour('line'), width: 1 }, ticks: { stroke: colour('line') }, font: FONT, labelFont: FONT });

// Draws a plot in `place`, again after a change of colours, and resizes it with the page.
export function usePlot(place, height, options, data, changes) {
  const plot = useRef(null);
  const current = useRef();
  current.current = { options, data };
  useEffect(() => {
    const width = () => Math.max(240, place.current.clientWidth);
    const build = () => {
      const old = plot.current;
      const { options, data } = current.current;
      plot.current = new uPlot({ width: width(), height, legend: { show: false }, ...options() }, data(), place.current);
      old?.destroy();
    };
    build();
    const theme = matchMedia('(prefers-color-scheme: dark)');
    theme.addEventListener('change', build);
    const resize = new ResizeObserver(() => { if (plot.current.width !== width()) plot.current.setSize({ width: width(), height }); });
    resize.observe(place.current);
    return () => { resize.disconnect(); theme.removeEventListener('change', build); plot.current.destroy(); };
  }, []);
  useEffect(() => {
    Object.assign(plot.current.hooks, current.current.options().hooks);
    plot.current.setData(current.current.data());
  }, changes);
  return plot;
}

// The window belongs on the scale only if a source states it. A guess would squash the chart.
const isStated = (point) => point.window_note && !point.window_note.source.startsWith('assumed');

// Notes for each point how many of the provider's tokens an estimated one is: by the last request that the
// provider counted, before that by the first.
function calibrate(points) {
  const counted = (point) => point.went_on && point.prompt_tokens > 0 && point.after > 0 ? point.prompt_tokens / point.after : null;
  let ratio = points.map(counted).find((one) => one !== null) ?? null;
  for (const point of points) point.ratio = ratio = counted(point) ?? ratio;
}

// Estimated tokens in the provider's: as counted, else by the window, if it is known in both.
const scale = (point) => point.ratio ?? (point.window_note && point.window > 0 ? point.window_note.tokens / point.window : 1);

// The sizes of a request in the provider's tokens. The provider counts what it received; a request
// that did not reach it has no forwarded size.
export function provided(point) {
  const after = point.prompt_tokens ?? Math.round(point.after * scale(point));
  const left = Math.round((point.before - point.after) * scale(point));
  if (!point.went_on) return { before: left, after: null, shadow: null };
  const shadow = point.shadow === null ? null : Math.max(0, after - Math.round((point.before - point.shadow) * scale(point)));
  return { before: after + left, after, shadow };
}

function series(points) {
  const all = points.map(provided);
  return [points.map((point) => point.number), all.map((size) => size.before), all.map((size) => size.shadow ?? size.after),
    points.map((point) => isStated(point) ? point.window_note.tokens : null)];
}

const isMarked = (point) => mark(point) && (point.rewritten || point.is_error || point.refused !== null);

// Draws each event at the top, with a line down to its request.
function drawMarks(points) {
  return (plot) => {
    const { ctx, bbox } = plot;
    const dot = devicePixelRatio;
    ctx.save();
    ctx.textAlign = 'center';
    ctx.textBaseline = 'middle';
    ctx.font = Math.round(12 * dot) + 'px system-ui, sans-serif';
    let last = -Infinity;
    for (const point of points.filter(isMarked)) {
      const [symbol, , name] = mark(point);
      const x = plot.valToPos(point.number, 'x', true);
      const size = provided(point);
      const y = plot.valToPos(size.shadow ?? size.after ?? size.before, 'y', true);
      ctx.strokeStyle = ctx.fillStyle = colour(name);
      ctx.globalAlpha = 0.5;
      ctx.setLineDash([2 * dot, 3 * dot]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top + 9 * dot);
      ctx.lineTo(x, y);
      ctx.stroke();
      ctx.globalAlpha = 1;
      if (x - last < 14 * dot) continue;
      last = x;
      ctx.fillText(symbol, x, bbox.top);
    }
    ctx.restore();
  };
}

function options(points, onMove) {
  const isShadow = points.some((point) => point.shadow !== null);
  const times = new Map(points.map((point) => [point.number, minute(point.at)]));
  return {
    padding: [16, 22, 0, 0],
    cursor: { x: true, y: false, drag: { x: false, y: false }, points: { size: 7 } },
    scales: { x: { time: false }, y: { range: (_, low, high) => [0, Math.max(1, high * 1.08)] } },
    axes: [
      { ...axis(), space: 60, size: 46, incrs: [1, 2, 5, 10, 20, 50, 100], values: (_, ticks) => ticks.map((number) => '#' + number + '\n' + (times.get(number) ?? '')) },
      { ...axis(), size: 52, values: (_, ticks) => ticks.map(round) },
    ],
    bands: [{ series: [1, 2], fill: colour('saved') }],
    series: [{}, { stroke: colour('sent'), width: 2, points: { show: points.length < 3 } },
      { stroke: colour('kept'), width: 2.5, dash: isShadow ? [6, 4] : undefined, points: { show: points.length < 3 } },
      { stroke: colour('dim'), width: 1.5, dash: [2, 4], points: { show: false } }],
    hooks: { draw: [drawMarks(points)], setCursor: [(plot) => onMove(plot.cursor.idx ?? null)] },
  };
}

// A conversation of one request has no course: a bar shows how full the window is.
function Single({ point }) {
  const size = provided(point);
  const window = point.window_note?.tokens;
  return html`<figure class="chart"><p class="readout">One request so far: received <b>${whole(size.before)}</b> tokens, ${size.after === null ? 'and forwarded nothing' : html`forwarded <b>${whole(size.after)}</b>`}.</p>
    ${window && html`<div class="fill wide"><i style=${{ width: percent(Math.min(size.before, window), window) }}></i></div>
    <p class="dim">${percent(size.before, window)} of the window of ${whole(window)} (${point.window_note.source}).</p>`}</figure>`;
}

function Plot({ points, onOpen }) {
  const place = useRef(null);
  const [at, move] = useState(null);
  const last = points.at(-1);
  const plot = usePlot(place, HEIGHT, () => options(points, move), () => series(points), [points.length, last.number]);
  const step = (event) => {
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
    if (event.key === 'Enter' && at !== null && points[at]) { onOpen(points[at]); return; }
    if (!(event.key in moves)) return;
    event.preventDefault();
    const from = at ?? (moves[event.key] < 0 ? points.length : -1);
    const to = Math.min(points.length - 1, Math.max(0, from + moves[event.key]));
    plot.current.setCursor({ left: plot.current.valToPos(points[to].number, 'x'), top: 0 });
    move(to);
  };
  const shown = points[at ?? points.length - 1] ?? last;
  const size = provided(shown);
  const isShadow = points.some((point) => point.shadow !== null);
  const marks = new Map(points.filter(isMarked).map(mark).map((found) => [found[0], found]));
  return html`
    <figure class="chart">
      <div class="plot" ref=${place} tabindex="0" role="group" aria-label="Chart of tokens by request. The arrow keys move the crosshair; Enter opens the request. The table below has all values."
        onKeyDown=${step} onClick=${() => at !== null && points[at] && onOpen(points[at])}></div>
      <figcaption>
        <p class="readout" aria-live=${at === null ? 'off' : 'polite'}>
          <b>${shown.number}</b> ${minute(shown.at)} · received <b>${whole(size.before)}</b> ·
          ${' '}forwarded <b>${size.after === null ? 'nothing' : whole(size.after)}</b>${size.shadow !== null && html` · would forward <b>${whole(size.shadow)}</b>`} · ${done(shown)}${shown.window_note && html` · window <b>${whole(shown.window_note.tokens)}</b> (${shown.window_note.source})`}
        </p>
        <ul class="legend">
          <li><i class="line sent"></i>received${isShadow && ' and forwarded'}</li>
          <li><i class=${'line kept' + (isShadow ? ' dashed' : '')}></i>${isShadow ? 'would forward' : 'forwarded'}</li>
          ${points.some((point) => point.went_on && (point.shadow ?? point.after) < point.before) && html`<li><i class="area"></i>${isShadow ? 'would be saved' : 'saved'}</li>`}
          ${points.some(isStated) && html`<li><i class="line window"></i>window</li>`}
          ${[...marks.values()].map(([symbol, words, name]) => html`<li key=${symbol}><i class=${'mark ' + name}>${symbol}</i>${words}</li>`)}
        </ul>
        <p class="dim">Tokens as the provider counts them. Sizes that the provider has not counted are converted from an estimate.</p>
      </figcaption>
    </figure>`;
}

export function Chart({ points, onOpen }) {
  calibrate(points);
  return points.length === 1 ? html`<${Single} point=${points[0]} />` : html`<${Plot} points=${points} onOpen=${onOpen} />`;
}
