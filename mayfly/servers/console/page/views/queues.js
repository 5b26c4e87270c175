/** All local queues: found by a part of the name, sorted by any column. */
import { ask } from '../api.js';
import { define } from '../definition.js';
import { fill, h } from '../dom.js';
import { count, counted, duration } from '../format.js';
import { now, watch } from '../live.js';
import { fail } from '../notices.js';
import { roleButton } from '../roles.js';
import { go, keep } from '../router.js';
import { here } from '../session.js';
import { dataTable } from '../table.js';

const MOST = 10_000;
const number = (/** @type {string} */ key, /** @type {string} */ label, /** @type {(queue: any) => number} */ value, /** @type {string} */ title) =>
  ({ key, label, title, number: true, value, cell: (/** @type {any} */ queue) => count(value(queue)) });

const COLUMNS = [
  { key: 'name', label: 'Queue', value: (queue) => queue.name },
  number('depth', 'Depth', (queue) => queue.depth, 'CURDEPTH, messages of open units of work included'),
  number('staged', 'Waiting', (queue) => queue.present?.staged ?? 0, 'Delayed messages that will come here'),
  number('live', 'Live', (queue) => queue.present?.live ?? 0, 'Could be got now'),
  number('uncommitted', 'Uncommitted', (queue) => queue.present?.uncommitted ?? 0, 'Puts of open units of work'),
  number('locked', 'Locked', (queue) => queue.present?.locked ?? 0, 'Got in open units of work, claimed, or locked by a browse'),
  number('expired_present', 'Expired', (queue) => queue.present?.expired_present ?? 0, 'Expired and still there: no get, browse or scan has found them'),
  {
    key: 'oldest', label: 'Oldest', number: true, title: 'Age of the oldest message',
    value: (queue) => (queue.oldest_put_ms === null ? null : -queue.oldest_put_ms), cell: (queue) => (queue.oldest_put_ms === null ? '' : duration(now() - queue.oldest_put_ms)),
  },
  number('puts', 'Puts', (queue) => queue.puts, 'Since the queue was defined'),
  number('got', 'Got', (queue) => queue.ended.got ?? 0, 'Since the queue was defined'),
  number('ended_expired', 'Expired, ended', (queue) => queue.ended.expired ?? 0, 'Lives that ended by expiry since the queue was defined'),
  number('in', 'Readers', (queue) => queue.input_count, 'IPPROCS'),
  number('out', 'Writers', (queue) => queue.output_count, 'OPPROCS'),
];

/** An age as the moment of the put, as events have it. @param {any} queue @param {number} now_ms */
export const withOldest = (queue, now_ms) => ({ ...queue, oldest_put_ms: queue.oldest_age_ms === null ? null : now_ms - queue.oldest_age_ms });

/** @param {HTMLElement} main @param {{query: URLSearchParams, signal: AbortSignal}} place */
export async function show(main, { query, signal }) {
  const find = /** @type {HTMLInputElement} */ (h('input', { type: 'search', value: query.get('find') ?? '', 'aria-label': 'Part of the name', placeholder: 'Part of the name' }));
  const system = /** @type {HTMLInputElement} */ (h('input', { type: 'checkbox' }));
  system.checked = query.get('system') === 'yes';
  const told = h('span', { class: 'quiet', role: 'status' });
  const table = dataTable({
    label: 'Queues', columns: COLUMNS, sort: 'name', fills: true, key: (queue) => queue.name, open: (queue) => go(['queue', queue.name]), empty: 'No queue has such a name.',
  });
  main.append(
    h('div', { class: 'page-head' }, h('h1', {}, 'Queues'), told,
      h('div', { class: 'tools' }, h('label', { class: 'field' }, system, 'Queues of the system'), find, roleButton('administer', { onclick: () => define('qlocal').catch(fail) }, 'Define…'))),
    table.element,
  );

  /** @type {Map<string, any>} */
  let all = new Map();
  const wanted = () => {
    const part = find.value.trim().toUpperCase();
    return [...all.values()].filter(({ name }) => (system.checked || part || !name.startsWith('SYSTEM.')) && name.toUpperCase().includes(part));
  };
  const draw = () => {
    const found = wanted();
    fill(told, counted(found.length, 'queue'));
    table.set(found);
  };
  for (const input of [find, system]) {
    input.addEventListener('input', () => {
      keep(['queues'], { find: find.value.trim(), system: system.checked ? 'yes' : '' });
      draw();
    });
  }
  let loaded_ms = 0;
  const load = async () => {
    const found = await ask('GET', here('queues'), { query: { limit: MOST }, signal });
    loaded_ms = found.now_ms;
    all = new Map(found.queues.map((queue) => [queue.name, withOldest(queue, found.now_ms)]));
    draw();
  };
  await load();
  let known = 0;
  watch((snapshot) => {
    // Events may be from before: there are none while nothing changes.
    if (snapshot.now_ms > loaded_ms) for (const [name, queue] of snapshot.queues) all.set(name, queue);
    draw();
    // Queues come and go, and only those with the most messages are told of.
    if (known && known !== snapshot.queue_count) load().catch(fail);
    known = snapshot.queue_count;
  }, signal);
}
