/** Lines over time by uPlot, in the colours of the theme. */
import { h } from './dom.js';
import { hear } from './signals.js';
import UPlot from './vendor/uplot.js';

/** The value of a colour of shell.css as a canvas needs it. @param {string} name */
export function colour(name) {
  const probe = h('i');
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/**
 * A chart of lines over time.
 * @param {{label: string, lines: {label: string, colour: string, isStepped?: boolean}[], format?: (value: number) => string, most?: number,
 *   height?: number, isTime?: boolean, signal: AbortSignal}} asked `most` is where the scale ends at least
 */
export function lineChart({ label, lines, format = String, most = 1, height = 136, isTime = true, signal }) {
  const element = h('div', { class: 'chart', role: 'img', 'aria-label': label });
  element.style.height = `${height}px`;
  /** @type {any} */ let plot = null;
  /** @type {any[]} */ let data = [[], ...lines.map(() => [])];

  function draw() {
    plot?.destroy();
    plot = null;
    if (!element.clientWidth || data[0].length < 2) return;
    const [line, quiet] = [colour('line'), colour('quiet')];
    const axis = { stroke: quiet, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: '11px system-ui', gap: 4 };
    const options = {
      width: element.clientWidth, height, legend: { show: false }, padding: [8, 24, 0, 0],
      cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
      scales: { x: { time: isTime }, y: { range: (_plot, _low, high) => [0, Math.max(most, high ?? most) * 1.08] } },
      axes: [
        { ...axis, size: 22, space: 72, grid: { show: false }, values: isTime ? clockTimes : undefined },
        { ...axis, size: 44, space: 28, values: (_plot, values) => values.map(format) },
      ],
      series: [{}, ...lines.map((each) => ({
        label: each.label, stroke: colour(each.colour), width: 1.5, fill: lines.length === 1 ? wash(colour(each.colour)) : undefined,
        points: { show: true, size: 4, fill: colour(each.colour), filter: alone }, paths: each.isStepped ? UPlot.paths.stepped({ align: 1 }) : undefined, spanGaps: false,
      }))],
    };
    plot = new UPlot(options, data, element);
  }

  const sizes = new ResizeObserver(() => (plot ? plot.setSize({ width: element.clientWidth, height }) : draw()));
  sizes.observe(element);
  hear('theme', () => requestAnimationFrame(draw), signal);
  signal.addEventListener('abort', () => (sizes.disconnect(), plot?.destroy()));

  return {
    element,
    /** Show other values: x in seconds since 1970, then the values of each line. @param {any[]} values @param {string} said */
    set(values, said) {
      data = values;
      element.setAttribute('aria-label', said);
      if (plot && data[0].length > 1) plot.setData(data);
      else draw();
    },
  };
}

/** Where a value has no neighbour, so that no line shows it. @param {any} plot @param {number} line */
function alone(plot, line) {
  const values = plot.data[line];
  const isGap = (/** @type {number} */ at) => (values[at] ?? null) === null;
  return [...values.keys()].filter((at) => !isGap(at) && isGap(at - 1) && isGap(at + 1));
}

/** A colour made faint, for the area below a line. @param {string} given */
const wash = (given) => given.replace(/^rgb\(/, 'rgba(').replace(/\)$/, ', 0.12)');

/** Times in the zone of the browser, as exact as the distance of two of them. @param {any} _plot @param {number[]} values seconds since 1970 */
function clockTimes(_plot, values) {
  const apart = values.length > 1 ? values[1] - values[0] : 0;
  return values.map((value) => {
    const at = new Date(value * 1_000);
    if (apart >= 43_200) return at.toLocaleDateString([], { weekday: 'short', day: 'numeric' });
    return at.toTimeString().slice(0, apart >= 60 ? 5 : 8);
  });
}
