/** Charts of the last hour, day or week, from the figures that the server keeps. */
import { ask } from './api.js';
import { lineChart } from './chart.js';
import { h } from './dom.js';
import { count, duration } from './format.js';
import { newest } from './newest.js';
import { fail } from './notices.js';
import { here } from './session.js';

/** @typedef {Record<string, any> & {start_ms: number, covered_ms: number}} Step a step of `GET …/figures` */
/** @typedef {{label: string, colour: string, of: (step: Step) => number|null}} Line */

/** How often new steps are asked for: the server takes a sample each 10 s. */
const PERIOD_MS = 10_000;
export const SPANS = { hour: 'Last hour', day: 'Last day', week: 'Last week' };

const MINUTE_MS = 60_000;
const eachMinute = (/** @type {string} */ figure) => (/** @type {Step} */ step) => (step.covered_ms ? (MINUTE_MS * step[figure]) / step.covered_ms : null);
const short = (/** @type {number} */ value) => (value > 0 && value < 10 ? value.toFixed(1).replace('.0', '') : count(value));
/** A duration in its largest unit: an axis has room for no more. @param {number} ms */
const shortly = (ms) => duration(ms).split(' ').slice(0, 2).join(' ');

/** @type {{title: string, unit: string, format: (value: number) => string, most?: number, lines: Line[]}[]} */
const CHARTS = [
  { title: 'Messages', unit: 'a minute', format: short, lines: [
    { label: 'Put', colour: 'accent', of: eachMinute('put_count') },
    { label: 'Got', colour: 'live', of: eachMinute('got_count') },
    { label: 'Expired', colour: 'dead', of: eachMinute('expired_count') }] },
  { title: 'Expired share', unit: 'of all that ended', format: (value) => `${short(value)} %`, most: 5, lines: [
    { label: 'Expired', colour: 'dead', of: (step) => (step.ended_count ? (100 * step.expired_count) / step.ended_count : null) }] },
  { title: 'Depth', unit: 'at most', format: count, most: 10, lines: [
    { label: 'Depth', colour: 'accent', of: (step) => step.depth },
    { label: 'Delayed', colour: 'waiting', of: (step) => step.delayed }] },
  { title: 'Oldest message', unit: 'at most', format: shortly, most: MINUTE_MS, lines: [
    { label: 'Age', colour: 'accent', of: (step) => step.oldest_age_ms }] },
  { title: 'Lateness', unit: 'in the mean', format: shortly, most: 1_000, lines: [
    { label: 'Release', colour: 'waiting', of: (step) => step.release_lateness_ms },
    { label: 'Expiry', colour: 'expired', of: (step) => step.discard_lateness_ms }] },
];

/**
 * A choice of the span, and charts that follow it.
 * @param {{queue?: string, over?: string, changed?: (over: string) => void, signal: AbortSignal}} asked
 *   without `queue` all queues together
 */
export function overTime({ queue, over = 'hour', changed, signal }) {
  const span = spanChoice(over, () => (changed?.(span.value), load().catch(fail)));
  const charts = CHARTS.map((chart) => chartOf(chart, signal));
  const nextSignal = newest(signal);
  async function load() {
    const found = await ask('GET', here('figures'), { query: { over: span.value, queue }, signal: nextSignal() });
    for (const chart of charts) chart.set(found);
  }
  const timer = setInterval(() => document.hidden || load().catch(fail), PERIOD_MS);
  signal.addEventListener('abort', () => clearInterval(timer));
  return { span, element: h('div', { class: 'charts over-time' }, charts.map(({ element }) => element)), load };
}

/** @param {string} over @param {() => void} changed */
function spanChoice(over, changed) {
  const options = Object.entries(SPANS).map(([value, text]) => h('option', { value, selected: value === over }, text));
  return /** @type {HTMLSelectElement} */ (h('select', { 'aria-label': 'Span of time', onchange: changed }, options));
}

/** @param {typeof CHARTS[number]} asked @param {AbortSignal} signal */
function chartOf({ title, unit, format, most, lines }, signal) {
  const chart = lineChart({ label: title, lines, format, most, signal });
  const keys = lines.map(({ label, colour }) => lines.length > 1 && h('span', { class: `key ${colour}` }, label));
  const head = h('div', { class: 'chart-head' }, h('h2', {}, title, h('span', { class: 'quiet' }, ` ${unit}`)), h('span', { class: 'chart-keys' }, keys));
  return {
    element: h('section', { class: 'panel', 'aria-label': `${title} ${unit}` }, head, chart.element),
    /** @param {{steps: Step[], step_ms: number}} found */
    set({ steps, step_ms }) {
      const shown = withGaps(steps, step_ms);
      const values = lines.map(({ of }) => shown.map((step) => (step.covered_ms === null ? null : of(/** @type {Step} */ (step)))));
      const said = lines.map(({ label }, index) => `${label} at most ${format(Math.max(0, ...values[index].map((value) => value ?? 0)))}`);
      chart.set([shown.map(({ start_ms }) => (start_ms + step_ms) / 1_000), ...values], `${title} ${unit}: ${said.join(', ')}`);
    },
  };
}

/** Steps with an empty one where the server did not run, so that no line crosses it. @param {Step[]} steps @param {number} step_ms */
function withGaps(steps, step_ms) {
  /** @type {{start_ms: number, covered_ms: number|null}[]} */ const found = [];
  for (const step of steps) {
    const last = found.at(-1);
    if (last && step.start_ms - last.start_ms > step_ms) found.push({ start_ms: last.start_ms + step_ms, covered_ms: null });
    found.push(step);
  }
  return found;
}
