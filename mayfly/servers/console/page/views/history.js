/** The last hour, day or week: charts of all queues, which queue loses most, and when. */
import { ask } from '../api.js';
import { h } from '../dom.js';
import { count, duration } from '../format.js';
import { heatMap } from '../heat_map.js';
import { fail } from '../notices.js';
import { overTime, SPANS } from '../over_time.js';
import { go, keep } from '../router.js';
import { here } from '../session.js';
import { dataTable } from '../table.js';

const share = (/** @type {any} */ { expired_count, ended_count }) => (ended_count ? (100 * expired_count) / ended_count : 0);
const number = (/** @type {string} */ key, /** @type {string} */ label, /** @type {string} */ title) =>
  ({ key, label, title, number: true, value: (/** @type {any} */ queue) => queue[key], cell: (/** @type {any} */ queue) => count(queue[key]) });
const lateness = (/** @type {string} */ key, /** @type {string} */ label, /** @type {string} */ title) =>
  ({ key, label, title, number: true, value: (/** @type {any} */ queue) => queue[key] ?? -1, cell: (/** @type {any} */ queue) => (queue[key] === null ? '' : duration(Math.round(queue[key]))) });
const COLUMNS = [
  { key: 'name', label: 'Queue', value: (/** @type {any} */ queue) => queue.name },
  number('expired_count', 'Expired', 'Lives that ended by expiry'),
  { key: 'share', label: 'Expired share', number: true, title: 'Of all lives that ended', value: share, cell: (/** @type {any} */ queue) => `${share(queue).toFixed(1)} %` },
  number('put_count', 'Put', 'Messages that became part of the queue'),
  number('got_count', 'Got', 'Messages that were got'),
  number('depth', 'Deepest', 'The highest CURDEPTH'),
  number('delayed', 'Delayed', 'The most delayed messages'),
  { key: 'oldest_age_ms', label: 'Oldest', number: true, title: 'The highest age of a message', value: (/** @type {any} */ queue) => queue.oldest_age_ms, cell: (/** @type {any} */ queue) => (queue.oldest_age_ms ? duration(queue.oldest_age_ms) : '') },
  lateness('release_lateness_ms', 'Released late', 'How long after their delivery times messages were released, in the mean'),
  lateness('discard_lateness_ms', 'Discarded late', 'How long after their deadlines expired messages were discarded, in the mean'),
];
/** Queues that no page is about, and the one whose messages are shown as delayed at their targets. */
const OTHERS = '(others)';
const STAGING = 'SYSTEM.DDELAY.LOCAL.QUEUE';

/** @param {HTMLElement} main @param {{query: URLSearchParams, signal: AbortSignal}} place */
export async function show(main, { query, signal }) {
  const over = query.get('over') ?? 'week';
  const charts = overTime({
    over: over in SPANS ? over : 'week', signal, changed: (chosen) => (keep(['history'], { over: chosen }), loadTotals().catch(fail)),
  });
  const deaths = heatMap({ signal });
  const table = dataTable({
    label: 'Queues by expired messages', sort: '-expired_count', columns: COLUMNS, key: (queue) => queue.name, empty: 'No queue had messages.',
    open: (queue) => queue.name !== OTHERS && go(['queue', queue.name], { over: charts.span.value }),
  });
  async function loadTotals() {
    const { queues } = await ask('GET', here('figures', 'queues'), { query: { over: charts.span.value }, signal });
    table.set(queues.filter((/** @type {any} */ { name }) => name !== STAGING));
  }
  main.append(
    h('div', { class: 'page-head' }, h('h1', {}, 'Over time'), h('div', { class: 'tools' }, charts.span)),
    h('h2', {}, 'Which queue loses most'), table.element, deaths.element, charts.element,
  );
  await Promise.all([charts.load(), loadTotals(), deaths.load()]);
  // Enter opens the queue that loses most.
  if (document.activeElement === main) table.focus();
}
