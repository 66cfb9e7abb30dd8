// The chart of a conversation: tokens by request, with a crosshair that the keyboard moves too.

import { html, useEffect, useRef, useState } from '/web/vendor/preact.js';
import { clock, done, mark, short, whole } from '/web/format.js';

const { uPlot } = window;
const HEIGHT = 240;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();

// The window belongs on the scale only if a source states it. A guess would squash the chart.
const isStated = (point) => point.window_note && !point.window_note.source.startsWith('assumed');

// Estimated tokens in the provider's: by the window, which is known in both.
const scale = (point) => point.window_note && point.window > 0 ? point.window_note.tokens / point.window : 1;

// The sizes of a request in the provider's tokens. The provider counts what it received; a request
// that did not reach it has no forwarded size.
export function provided(point) {
  const after = point.prompt_tokens ?? Math.round(point.after * scale(point));
  const left = Math.round((point.before - point.after) * scale(point));
  return point.went_on ? { before: after + left, after } : { before: left, after: null };
}

function series(points) {
  const sizes = points.map(provided);
  return [points.map((point) => point.number), sizes.map((size) => size.before), sizes.map((size) => size.after),
    points.map((point) => isStated(point) ? point.window_note.tokens : null)];
}

function drawMarks(points) {
  return (plot) => {
    const { ctx } = plot;
    ctx.save();
    ctx.textAlign = 'center';
    ctx.font = Math.round(13 * devicePixelRatio) + 'px system-ui, sans-serif';
    let last = -Infinity;
    for (const point of points) {
      const found = mark(point);
      if (!found || !(point.rewritten || point.is_error || point.refused !== null)) continue;
      const x = plot.valToPos(point.number, 'x', true);
      if (x - last < 12 * devicePixelRatio) continue;
      last = x;
      const size = provided(point);
      const y = Math.max(plot.bbox.top + 14 * devicePixelRatio, plot.valToPos(size.after ?? size.before, 'y', true) - 8 * devicePixelRatio);
      ctx.fillStyle = colour(found[2]);
      ctx.fillText(found[0], x, y);
    }
    ctx.restore();
  };
}

function options(points, width, onMove) {
  const axis = { stroke: colour('dim'), grid: { stroke: colour('line'), width: 1 }, ticks: { stroke: colour('line') },
    font: '12px system-ui, sans-serif' };
  return {
    width, height: HEIGHT, legend: { show: false },
    cursor: { x: true, y: false, drag: { x: false, y: false }, points: { size: 7 } },
    scales: { x: { time: false }, y: { range: (_, low, high) => [0, Math.max(1, high * 1.08)] } },
    axes: [
      { ...axis, space: 60, label: 'request', labelSize: 18, labelFont: '12px system-ui, sans-serif', size: 34, incrs: [1, 2, 5, 10, 20, 50, 100] },
      { ...axis, size: 52, label: 'tokens', labelSize: 16, labelFont: '12px system-ui, sans-serif', values: (_, ticks) => ticks.map(short) },
    ],
    series: [{}, { stroke: colour('sent'), width: 2, points: { show: points.length < 3 } },
      { stroke: colour('kept'), width: 2, points: { show: points.length < 3 }, spanGaps: false },
      { stroke: colour('dim'), width: 1.5, dash: [6, 4], points: { show: false }, spanGaps: false }],
    hooks: { draw: [drawMarks(points)], setCursor: [(plot) => onMove(plot.cursor.idx ?? null)] },
  };
}

export function Chart({ points, onOpen }) {
  const place = useRef(null);
  const plot = useRef(null);
  const current = useRef(points);
  current.current = points;
  const [at, move] = useState(null);
  const last = points.at(-1);
  useEffect(() => {
    const build = () => {
      const old = plot.current;
      const width = Math.max(240, place.current.clientWidth);
      plot.current = new uPlot(options(current.current, width, move), series(current.current), place.current);
      old?.destroy();
    };
    build();
    const theme = matchMedia('(prefers-color-scheme: dark)');
    theme.addEventListener('change', build);
    const resize = new ResizeObserver(() => {
      const width = Math.max(240, place.current.clientWidth);
      if (plot.current.width !== width) plot.current.setSize({ width, height: HEIGHT });
    });
    resize.observe(place.current);
    return () => { resize.disconnect(); theme.removeEventListener('change', build); plot.current.destroy(); };
  }, []);
  useEffect(() => {
    plot.current.hooks.draw = [drawMarks(points)];
    plot.current.setData(series(points));
  }, [points.length, last?.number]);
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
  const size = shown && provided(shown);
  return html`
    <figure class="chart">
      <div class="plot" ref=${place} tabindex="0" role="group" aria-label="Chart of tokens by request. The arrow keys move the crosshair; Enter opens the request. The table below has all values."
        onKeyDown=${step} onClick=${() => at !== null && points[at] && onOpen(points[at])}></div>
      <figcaption>
        <p class="readout" aria-live=${at === null ? 'off' : 'polite'}>
          ${shown && html`<b>${shown.number}</b> ${clock(shown.at)} · received <b>${whole(size.before)}</b> ·
          forwarded <b>${size.after === null ? 'nothing' : whole(size.after)}</b> · ${done(shown)}${shown.window_note && html` · window <b>${whole(shown.window_note.tokens)}</b> (${shown.window_note.source})`}`}
        </p>
        <ul class="legend">
          <li><i class="line sent"></i>received</li><li><i class="line kept"></i>forwarded</li>
          ${points.some(isStated) && html`<li><i class="line window"></i>window</li>`}
          <li><i class="mark clear">▲</i>cleared</li><li><i class="mark record">◆</i>summary</li>
          <li><i class="mark warn">↻</i>sent again</li><li><i class="mark bad">✕</i>failed</li>
        </ul>
        <p class="dim">Tokens as the provider counts them. Sizes that the provider has not counted are converted from an estimate.</p>
      </figcaption>
    </figure>`;
}
